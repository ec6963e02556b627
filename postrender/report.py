"""Write findings for people, for programs, for annotations and for the test reports of CI."""

from __future__ import annotations

from postrender import lines, textio, tokens
from postrender.errors import GrpoError
from postrender.finding import ERROR, INFO, SEVERITIES, WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.errors import Location
    from postrender.finding import Finding

FORMATS = ("text", "json", "github", "sarif", "junit")
# What these find is told by the findings themselves; the other domains have rules with a page.
_WITHOUT_PAGE = ("values/", "checks/")
_texts: dict[str, lines.Lines] = {}


def write(findings: Sequence[Finding], form: str, fail_on: str = ERROR) -> str:
    """Return the report in one of FORMATS, with a newline at its end; text is empty where there is nothing to say.

    `fail_on` is the least severity that is a failure, which one of the forms tells from the others.
    """
    if form == "json":
        return _json(findings)
    if form == "sarif":
        from postrender import sarif

        return sarif.write(findings)
    if form == "junit":
        from postrender import junit

        return visible(junit.write(findings, fail_on))
    if form == "github":
        return tokens.mask("".join(_github(finding) for finding in findings))
    return _text(findings)


def _text(findings: Sequence[Finding]) -> str:
    blocks = [_block(finding) for finding in findings]
    if not blocks:
        return ""
    return visible(tokens.mask("\n".join(blocks) + f"\n{_count(findings)}\n"))


def _count(findings: Sequence[Finding]) -> str:
    """Write how many findings there are, and how many of them are less than errors."""
    count = f"{len(findings)} finding" + ("s" if len(findings) > 1 else "")
    lesser = [(name, sum(finding.severity == name for finding in findings)) for name in SEVERITIES[1:]]
    named = ", ".join(
        f"{number} {name}{'s' if number > 1 and name == WARNING else ''}" for name, number in lesser if number
    )
    return f"{count} ({named})" if named else count


def _block(finding: Finding) -> str:
    source = "" if finding.secret else excerpt(finding.at)
    mark = "" if finding.severity == ERROR else f"{finding.severity}: "
    also = "".join(f"  also: {at} {key}\n" for at, key in finding.also)
    head = f"{finding.at}: {mark}{finding.what}  [{finding.rule}]\n"
    see = "" if finding.rule.startswith(_WITHOUT_PAGE) else f"  see: grpo rules {finding.rule}\n"
    return f"{head}{source}{also}  why: {finding.why}\n  fix: {finding.fix}\n{see}"


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
    if at.file not in _texts:
        try:
            _texts[at.file] = lines.Lines(textio.read_bytes(at.file))
        except GrpoError:
            _texts[at.file] = lines.Lines(b"")
    return tokens.mask(_texts[at.file].line(at.line))[:200]


def visible(text: str) -> str:
    """Replace control characters, which a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)


def _json(findings: Sequence[Finding]) -> str:
    import json

    entries = [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "file": tokens.mask(finding.at.file),
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
    place = f"file={_escape(visible(at.in_repository()), ':,')}" + (f",line={at.line},col={at.col}" if at.line else "")
    message = _escape(visible(f"{finding.what}\nwhy: {finding.why}\nfix: {finding.fix}"))
    level = "notice" if finding.severity == INFO else finding.severity
    return f"::{level} {place},title={_escape(finding.rule, ':,')}::{message}\n"


def _escape(text: str, more: str = "") -> str:
    """Escape as GitHub's workflow commands want it: per cent first, then line ends, then separators of properties."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
