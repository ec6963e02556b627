"""A finding: one thing to say about the values, with the line to edit."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from postrender.errors import Location

    Path = tuple[str | int, ...]

# Worst first.
SEVERITIES = ("error", "warning", "info")
ERROR, WARNING, INFO = SEVERITIES


class Finding:
    """Hold what is wrong (with the numbers), why it matters and what to do; `at` is the place that a user edits.

    `also` are other places that take part, with their keys; `proposed` are values that mend it, by their paths.
    `secret` keeps the source line out of every report.
    """

    __slots__ = ("also", "at", "fix", "proposed", "rule", "secret", "severity", "what", "why")

    def __init__(
        self,
        rule: str,
        at: Location,
        what: str,
        why: str,
        fix: str,
        *,
        severity: str = ERROR,
        also: Sequence[tuple[Location, str]] = (),
        proposed: Mapping[Path, Any] | None = None,
        secret: bool = False,
    ) -> None:
        self.rule = rule
        self.at = at
        self.what = what
        self.why = why
        self.fix = fix
        self.severity = severity
        self.also = also
        self.proposed = proposed or {}
        self.secret = secret

    def key(self) -> tuple[Location, str, str]:
        """Return what makes two findings the same, in the order of reports."""
        return (self.at, self.rule, self.what)


def is_at_least(findings: Sequence[Finding], severity: str) -> bool:
    """Say whether one of the findings is of this severity or a worse one."""
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return any(finding.severity in worst for finding in findings)
