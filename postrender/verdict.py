"""What every command that judges is asked, and how it ends: which findings, in which form, with which exit code."""

from __future__ import annotations

import sys

from postrender import report
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS
from postrender.finding import SEVERITIES, is_at_least

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from postrender.finding import Finding
    from postrender.options import Options

OPTIONS: Final = ("format", "fail-on", "select")


class Wanted:
    """Hold the options that all such commands have; raises UsageError where one has a value that it cannot have."""

    def __init__(self, options: Options) -> None:
        self._form = options.choice("format", report.FORMATS)
        self._fail_on = options.choice("fail-on", SEVERITIES)
        self._selected: set[str] | None = None
        if options.has("select"):
            from postrender.rules import known

            self._selected = {each.id for each in known.called(options.words_of("select"), options.command)}

    def of(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that were asked for."""
        return [finding for finding in findings if self._selected is None or finding.rule in self._selected]

    def deliver(self, findings: Sequence[Finding]) -> int:
        """Print a report of findings; return the exit code."""
        sys.stdout.write(report.write(findings, self._form, self._fail_on))
        return EXIT_FINDINGS if is_at_least(findings, self._fail_on) else EXIT_CLEAN
