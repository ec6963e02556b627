"""Write findings as text: where, what, the source line with a caret, why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from postrender import masking, textfile, visible
from postrender.errors import GrpoError, Location
from postrender.finding import ERROR, SEVERITIES, Finding, is_at_least

# Findings of these domains have no page; those of other domains point to the page of their rule.
_WITHOUT_PAGE = ("values/", "checks/")
_SHOWN_CHARACTERS = 200


def write(findings: Sequence[Finding], fail_on: str) -> str:
    """Return the report, ending with a newline; empty without findings. `fail_on` is as in formats.write."""
    blocks = [block(finding) for finding in findings]
    if not blocks:
        return ""
    count = _count(findings)
    if not is_at_least(findings, fail_on):
        count += f"; the exit code is 0, and 1 with --fail-on {_worst(findings)}"
    return masking.text("\n".join(blocks) + f"\n{count}\n")


def _count(findings: Sequence[Finding]) -> str:
    """Return the number of findings of each severity."""
    counts = [(name, sum(finding.severity == name for finding in findings)) for name in SEVERITIES]
    return ", ".join(f"{number} {name}{'s' if number > 1 else ''}" for name, number in counts if number)


def _worst(findings: Sequence[Finding]) -> str:
    """Return the highest severity of findings."""
    return next(name for name in SEVERITIES if is_at_least(findings, name))


def block(finding: Finding) -> str:
    source = "" if finding.secret else excerpt(finding.at)
    mark = "" if finding.severity == ERROR else f"{finding.severity}: "
    head = visible.lines([f"{finding.at}: {mark}{finding.what}  [{finding.rule}]"])
    below = [f"  also: {at} {key}" for at, key in finding.also] + [f"  why: {finding.why}", f"  fix: {finding.fix}"]
    if not finding.rule.startswith(_WITHOUT_PAGE):
        below.append(f"  see: grpo explain {finding.rule}")
    return f"{head}{source}{visible.lines(below)}"


def excerpt(at: Location) -> str:
    """Return the source line with a caret below the column; empty for a location without a line."""
    line = _line(at)
    if not line.strip():
        return ""
    number = str(at.line)
    # Keep tabs, so that the caret is below the right character for any tab width.
    indent = "".join("\t" if character == "\t" else " " for character in line[: at.col - 1])
    return f"  {number} | {line}\n  {' ' * len(number)} | {indent}^\n"


def _line(at: Location) -> str:
    if not at.line:
        return ""
    lines = _source_lines(at.file)
    return lines[at.line - 1][:_SHOWN_CHARACTERS] if at.line <= len(lines) else ""


@cache
def _source_lines(file: str) -> list[str]:
    """Return a file's lines with secrets masked; a secret's name may be on the line before its value."""
    stream = masking.Stream()
    try:
        return [stream.masked(line) for line in textfile.read_bytes(file).decode("utf-8", "replace").splitlines()]
    except GrpoError:
        return []
