"""A finding: one thing to say about the values, with the line to edit."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postrender.location import Location


class Finding:
    """Hold what is wrong (with the numbers), why it matters and what to do; `at` is the place that a user edits.

    `secret` keeps the source line out of every report.
    """

    __slots__ = ("at", "fix", "rule", "secret", "what", "why")

    def __init__(self, rule: str, at: Location, what: str, why: str, fix: str, *, secret: bool = False) -> None:
        self.rule = rule
        self.at = at
        self.what = what
        self.why = why
        self.fix = fix
        self.secret = secret

    def key(self) -> tuple[Location, str, str]:
        """Return what makes two findings the same, in the order of reports."""
        return (self.at, self.rule, self.what)
