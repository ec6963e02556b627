"""What rules about charts are made of: a rule that is asked about one chart, and what it says."""

from __future__ import annotations

from postrender.errors import Location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from postrender.chartfiles import Chart


class Said:
    """What a rule found: the place, other places that take part; `secret` keeps the line out of reports."""

    __slots__ = ("also", "at", "secret", "what")

    def __init__(
        self, at: Location, what: str, *, also: Sequence[tuple[Location, str]] = (), secret: bool = False
    ) -> None:
        self.at = at
        self.what = what
        self.also = also
        self.secret = secret


class ChartRule:
    """Say what is judged of a chart and why: `source` is the evidence, `fix` what to do."""

    __slots__ = ("check", "fix", "id", "severity", "source", "title", "why")

    def __init__(
        self,
        id: str,  # noqa: A002 (what the field calls it)
        *,
        severity: str,
        title: str,
        why: str,
        fix: str,
        source: str,
        check: Callable[[Chart], Iterator[Said]],
    ) -> None:
        self.id = id
        self.severity = severity
        self.title = title
        self.why = why
        self.fix = fix
        self.source = source
        self.check = check


def some(names: Sequence[str], shown: int = 3) -> str:
    """Name the first of several, and count the rest."""
    rest = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + rest
