"""Write findings for people, for programs and for GitHub's annotations."""

from __future__ import annotations

from postrender import tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.finding import Finding
    from postrender.location import Location

FORMATS = ("text", "json", "github")


def write(findings: Sequence[Finding], form: str) -> str:
    """Return the report in one of FORMATS, with a newline at its end; empty text where there is nothing to say."""
    if form == "json":
        return _json(findings)
    if form == "github":
        return tokens.mask("".join(_github(finding) for finding in findings))
    return _text(findings)


def _text(findings: Sequence[Finding]) -> str:
    blocks = [_block(finding) for finding in findings]
    if not blocks:
        return ""
    count = f"{len(blocks)} finding" + ("s" if len(blocks) > 1 else "")
    return tokens.mask("\n".join(blocks) + f"\n{count}\n")


def _block(finding: Finding) -> str:
    source = "" if finding.secret else excerpt(finding.at)
    return f"{finding.at}: {finding.what}  [{finding.rule}]\n{source}  why: {finding.why}\n  fix: {finding.fix}\n"


def excerpt(at: Location) -> str:
    """Return the source line with a caret below the column, or nothing for a place without a line."""
    line = _line(at)
    if not line.strip():
        return ""
    number = str(at.line)
    # A tab stays a tab, so that the caret stands below the right character whatever the terminal makes of it.
    indent = "".join("\t" if character == "\t" else " " for character in line[: at.col - 1])
    return f"  {number} | {line}\n  {' ' * len(number)} | {indent}^\n"


def _line(at: Location) -> str:
    if not at.line:
        return ""
    try:
        with open(at.file, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    return tokens.mask(lines[at.line - 1])[:200] if at.line <= len(lines) else ""


def _json(findings: Sequence[Finding]) -> str:
    import json

    entries = [
        {
            "rule": finding.rule,
            "file": finding.at.file,
            "line": finding.at.line,
            "col": finding.at.col,
            "what": tokens.mask(finding.what),
            "why": finding.why,
            "fix": tokens.mask(finding.fix),
        }
        for finding in findings
    ]
    return json.dumps({"findings": entries}, indent=2, ensure_ascii=False) + "\n"


def _github(finding: Finding) -> str:
    at = finding.at
    place = f"file={_escape(at.file, ':,')}" + (f",line={at.line},col={at.col}" if at.line else "")
    message = _escape(f"{finding.what}\nwhy: {finding.why}\nfix: {finding.fix}")
    return f"::error {place},title={_escape(finding.rule, ':,')}::{message}\n"


def _escape(text: str, more: str = "") -> str:
    """Escape as GitHub's workflow commands want it: per cent first, then line ends, then separators of properties."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
