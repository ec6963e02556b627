"""Write findings as workflow commands of GitHub, which annotate the lines of a change.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Sequence

from postrender import secrets
from postrender.finding import INFO, Finding
from postrender.report.text import visible


def write(findings: Sequence[Finding]) -> str:
    """Return the report: one command per line."""
    return secrets.mask("".join(_command(finding) for finding in findings))


def _command(finding: Finding) -> str:
    at = finding.at
    place = f"file={_escape(visible(at.in_repository()), ':,')}" + (f",line={at.line},col={at.col}" if at.line else "")
    message = _escape(visible(f"{finding.what}\nwhy: {finding.why}\nfix: {finding.fix}"))
    level = "notice" if finding.severity == INFO else finding.severity
    return f"::{level} {place},title={_escape(finding.rule, ':,')}::{message}\n"


def _escape(text: str, more: str = "") -> str:
    """Escape text for a workflow command: per cent first, then line ends, then the separators in `more`."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
