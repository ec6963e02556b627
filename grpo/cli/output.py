"""Print findings, tables and errors: plain text for pipes, files and CI; colour and tables for a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TextIO

from grpo.report import formats
from grpo.report import text as report_text
from grpo.report.scope import Scope
from grpo.terminal.watched import is_watched
from postrender import masking, visible
from postrender.counting import counted
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS, GrpoError, InstallationError, Location, UsageError
from postrender.finding import Finding, is_at_least, reported

NOTHING_JUDGED: Final = "Nothing that it concerns has been judged."


def give_up(stream: TextIO) -> None:
    """Discard buffered output; at exit, Python would otherwise try to write it again and print an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def tell(text: str) -> None:
    """Write the last line to stderr; the exit code reflects the judgement even if nobody reads the line."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BrokenPipeError:
        give_up(sys.stderr)


def write(text: str) -> None:
    """Write text to stdout, with colour on a terminal."""
    _write(text, sys.stdout)


def write_lines(lines: Iterable[str]) -> None:
    """Write a command's human-readable lines to stdout, with secrets masked."""
    # A secret may stand in several lines, of one text or of several.
    sys.stdout.write(masking.text(visible.lines(map(masking.text, lines))))


def write_document(text: str) -> None:
    """Write machine-readable output to stdout, character for character; on a terminal, show control characters."""
    (sys.stdout if sys.stdout.isatty() else visible.exact(sys.stdout)).write(text)


def _write(text: str, stream: TextIO) -> None:
    if is_watched(stream):
        from grpo.cli import drawing  # noqa: PLC0415 (rich takes as long to import as a small file to judge)

        drawing.draw_text(text, stream)
    else:
        stream.write(text)


def write_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], text: Callable[[], str], below: str = ""
) -> None:
    """Write rows as a table, followed by the lines `below`, to a terminal, and `text` to anything else.

    Secrets in the rows are masked.
    """
    if is_watched(sys.stdout):
        from grpo.cli import drawing  # noqa: PLC0415 (as above)

        drawing.draw_table(headings, rows, sys.stdout)
        write(below)
    else:
        sys.stdout.write(text())


def complain(error: GrpoError) -> None:
    """Print an error with the line of the file it is about; mask secrets in both."""
    place = f"{error.at}: " if error.at else ""
    fix = visible.lines([f"  fix: {error.fix}"]) if error.fix else ""
    source = report_text.excerpt(error.at) if error.at and not error.secret else ""
    message = f"{error.message}\n" if error.is_report else visible.lines([place + error.message])
    _write(masking.text(f"{message}{source}{fix}"), sys.stderr)


class Report:
    """Print the selected findings in the selected format.

    `fail_on` is the lowest severity that makes the exit code 1; `selected` holds rule ids, and None means all rules.
    """

    def __init__(self, form: str, fail_on: str, selected: Collection[str] | None) -> None:
        self._form = form
        self._fail_on = fail_on
        self._selected = selected

    @property
    def of_all_rules(self) -> bool:
        """Return whether every rule is selected."""
        return self._selected is None

    def of(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the selected findings."""
        return reported(findings, self._selected)

    def left_out(self, findings: Iterable[Finding]) -> str:
        """Return a line that counts the findings of other rules; empty if all rules are selected."""
        count = sum(self._selected is not None and each.rule not in self._selected for each in reported(findings))
        return f"not shown: {counted(count, 'finding')} of other rules\n" if count else ""

    def tell(
        self,
        error: GrpoError,
        place: str,
        findings: Sequence[Finding] = (),
        *,
        why: str = NOTHING_JUDGED,
        scope: Scope | None = None,
    ) -> None:
        """Print what was found before an error ended the command; in machine formats, the error is a finding too.

        An empty report would look like a clean one, or like no report at all. A wrong command line is not a finding in
        any file. `place` is used for an error that names no place; `why` says what was not judged because of the error.
        """
        told = list(findings)
        if self._form != "text" and not isinstance(error, (UsageError, InstallationError)):
            at, fix = error.at or Location(place), error.fix or "mend what it names"
            told.append(Finding(error.message, at, rule="checks/could-not-run", why=why, fix=fix, secret=error.secret))
        if told:
            self.deliver(told, scope)

    def deliver(self, findings: Sequence[Finding], scope: Scope | None = None) -> int:
        """Print a report of the findings and of what was judged; return the exit code."""
        text = formats.write(findings, self._form, self._fail_on, scope)
        try:
            if self._form == "text":
                write(text)
            elif self._form == "github":
                # These commands are ours; the text in them is escaped.
                visible.exact(sys.stdout).write(text)
            else:
                sys.stdout.write(text)
        except BrokenPipeError:
            # The exit code is that of the judgement, though nobody reads the rest.
            give_up(sys.stdout)
        return EXIT_FINDINGS if is_at_least(findings, self._fail_on) else EXIT_CLEAN
