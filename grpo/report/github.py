"""Write findings as GitHub workflow commands, which annotate the lines of a change.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Sequence

from postrender import masking, visible
from postrender.finding import INFO, Finding


def write(findings: Sequence[Finding]) -> str:
    """Return the report: one command per line."""
    return "".join(_command(finding) for finding in findings)


def _command(finding: Finding) -> str:
    at = finding.at
    line = f",line={at.line},col={at.col}" if at.line else ""
    place = f"file={_escape(_shown(at.in_repository()), ':,')}{line}"
    also = "".join(f"\nalso: {at._replace(file=at.in_repository())} {note}" for at, note in finding.also)
    message = _escape(_shown(f"{finding.what}{also}\nwhy: {finding.why}\nfix: {finding.fix}"))
    level = "notice" if finding.severity == INFO else finding.severity
    return f"::{level} {place},title={_escape(finding.rule, ':,')}::{message}\n"


def _shown(text: str) -> str:
    return masking.text(visible.text(text))


def _escape(text: str, more: str = "") -> str:
    """Escape text for a workflow command: percent signs first, then line ends, then the separators in `more`."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
