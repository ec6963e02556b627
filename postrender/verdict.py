"""What every command that judges is asked, and how it ends: which findings, in which form, with which exit code."""

from __future__ import annotations

import sys

from postrender import report
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS, Location, UsageError
from postrender.failures import InstallationError
from postrender.finding import SEVERITIES, Finding, is_at_least

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from postrender.errors import GrpoError
    from postrender.options import Options

_NOTHING: Final = "Nothing that it concerns has been judged."
OPTIONS: Final = ("format", "fail-on", "select")


class Wanted:
    """Hold the options that all such commands have; raises UsageError where one has a value that it cannot have."""

    def __init__(self, options: Options) -> None:
        self._form = options.choice("format", report.FORMATS)
        self._fail_on = options.choice("fail-on", SEVERITIES)
        self._selected: set[str] | None = None
        # Where an error is told that names no place.
        self._place = [*options.all("values"), *options.words, "values"][0]
        if options.has("select"):
            from postrender.rules import known

            self._selected = {each.id for each in known.called(options.words_of("select"), options.command)}

    def of(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that were asked for."""
        return [finding for finding in findings if self._selected is None or finding.rule in self._selected]

    def tell(self, error: GrpoError, findings: Sequence[Finding] = ()) -> None:
        """Print what was found before an error ended the command; for programs the error is a finding too.

        An empty report would look like a clean one, or like none. A wrong command line is no finding in any file.
        """
        told = list(findings)
        if self._form != "text" and not isinstance(error, (UsageError, InstallationError)):
            at, fix = error.at or Location(self._place), error.fix or "mend what it names"
            told.append(Finding("checks/could-not-run", at, error.message, _NOTHING, fix, secret=error.secret))
        if told:
            self.deliver(told)

    def deliver(self, findings: Sequence[Finding]) -> int:
        """Print a report of findings; return the exit code."""
        sys.stdout.write(report.write(findings, self._form, self._fail_on))
        return EXIT_FINDINGS if is_at_least(findings, self._fail_on) else EXIT_CLEAN
