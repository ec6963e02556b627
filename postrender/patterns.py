"""Regular expressions that are compiled when they are first asked: a run needs few of all that the rules know.

`re` itself is one of the larger imports of a small command.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern
    from typing import Any


class Later:
    """A pattern that is compiled when it is asked for something, and then answers as `re.Pattern` does."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the pattern has)
        import re

        found = getattr(re.compile(self._text), name)
        # From now on it is found without this detour.
        setattr(self, name, found)
        return found


def pattern(text: str) -> Pattern[str]:
    """Return what `re.compile(text)` would; flags stand in the text: `(?i)`, `(?m)`, `(?s)`."""
    later: Pattern[str] = Later(text)  # type: ignore[assignment]
    return later
