"""Drop findings that only follow from a misspelt key, and name the flag that sets a value with the right type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grpo.values import set_arguments
from postrender import json_text, textfile
from postrender.errors import Location
from postrender.finding import Finding, NewName
from postrender.types import Path
from postrender.values.merge import Values
from postrender.yaml.reader import Node

# What each of these findings misses; missing-key names its own keys.
_MISSES = {
    "values/no-accelerator": (("accelerator", "name"),),
    "values/no-recipe": (("images", "training"),),
    "values/version-of-another-framework": (("job", "framework"), ("job", "version")),
}
# The flags that make a text of 1e-6; --set makes numbers of integers only.
_FLAGS = (set_arguments.SET, set_arguments.STRING)


def has_section(found: Sequence[Finding]) -> bool:
    """Return whether a section is misspelt, in which case the other values seem to describe a different run."""
    return any(each.rule == "values/unknown-key" and each.keys for each in found)


def without_consequences(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those about a missing value that a misspelt or mistyped key was meant to set."""
    meant = {
        (*path[:-1], new.name) for each in found for path, new in each.edits.items() if isinstance(new, NewName)
    } | {tuple(key.split(".")) for each in found if each.rule == "values/wrong-type" for key in each.keys}
    return [each for each in found if not any(_is_set_by(path, meant) for path in _missed(each))]


def _missed(finding: Finding) -> list[Path]:
    if finding.rule == "values/missing-key":
        return [tuple(key.split(".")) for key in finding.keys]
    return [*_MISSES.get(finding.rule, ())]


def _is_set_by(path: Path, meant: set[Path]) -> bool:
    return any(path[:end] in meant for end in range(1, len(path) + 1))


def with_flags(merged: Values, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; if a flag gives a value the wrong type, the fix names the flag that gives the right type."""
    values = dict(_scalars(merged.root))
    return [_explained(finding, values[finding.at]) if finding.at in values else finding for finding in findings]


def _scalars(node: Node) -> Iterator[tuple[Location, object]]:
    """Yield the places of values from --set and --set-string that are texts, numbers or booleans."""
    if isinstance(node.value, str | int | float) and _flag(node.at):
        yield node.at, node.value
    for child in node.children():
        yield from _scalars(child)


def _flag(at: Location) -> str:
    return next((flag for flag in _FLAGS if at.file == f"<{flag}>"), "")


def _is_number(text: str) -> bool:
    try:
        return type(json_text.loads(text)) in (int, float)
    except ValueError:
        return False


def _explained(finding: Finding, value: object) -> Finding:
    flag = _flag(finding.at)
    if isinstance(value, str):
        if not _is_number(value) or not _wants_number(finding, value):
            return finding
        fix = f"Helm's {flag} keeps {value} as text: use --set-json {_key(finding)}={value}"
    elif "expected text in quotes" in finding.what:
        fix = f"Helm's {flag} reads a number or a boolean: use --set-string {_argument(finding)}"
    else:
        return finding
    return finding._replace(fix=fix, edits={})


def _wants_number(finding: Finding, text: str) -> bool:
    """Return whether a finding's key accepts a text as the number that it spells, judged by the finding's message."""
    wanted = finding.what.partition(f'"{text}", expected')[2]
    return "number" in wanted or ("integer" in wanted and float(text).is_integer())


def _argument(finding: Finding) -> str:
    """Return the argument that a finding is about."""
    line = textfile.read_bytes(finding.at.file).decode("utf-8").splitlines()[finding.at.line - 1]
    return line[finding.at.col - 1 :].partition(",")[0]


def _key(finding: Finding) -> str:
    return _argument(finding).partition("=")[0]
