"""Leave out what follows from a misspelt key, and say why a number of --set is a text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from postrender import textfile
from postrender.errors import Location
from postrender.finding import Finding, NewName
from postrender.types import Path
from postrender.values import set_arguments
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
    """Return whether a section is misspelt: the rest of the values then looks like another run."""
    return any(each.rule == "values/unknown-key" and each.keys for each in found)


def without_consequences(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those that miss what a misspelt or mistyped key was meant to set."""
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
    """Return the findings; the fix of one about a text that reads as a number names --set-json."""
    texts = dict(_texts(merged.root))
    return [_explained(finding, texts[finding.at]) if finding.at in texts else finding for finding in findings]


def _texts(node: Node) -> Iterator[tuple[Location, str]]:
    """Yield the places of the texts that --set and --set-string made of numbers."""
    if isinstance(node.value, str) and _flag(node.at) and _is_number(node.value):
        yield node.at, node.value
    for child in node.children():
        yield from _texts(child)


def _flag(at: Location) -> str:
    return next((flag for flag in _FLAGS if at.file == f"<{flag}>"), "")


def _is_number(text: str) -> bool:
    try:
        return type(json.loads(text)) in (int, float)
    except ValueError:
        return False


def _explained(finding: Finding, text: str) -> Finding:
    if f'"{text}", expected' not in finding.what:
        return finding
    line = textfile.read_bytes(finding.at.file).decode("utf-8").splitlines()[finding.at.line - 1]
    key = line[finding.at.col - 1 :].partition("=")[0]
    return finding._replace(
        fix=f"Helm's {_flag(finding.at)} keeps {text} as text: use --set-json {key}={text}", edits={}
    )
