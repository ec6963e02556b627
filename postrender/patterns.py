"""Regular expressions that are compiled when they are first needed: a run needs few of all that the rules know.

`re` itself is one of the larger imports of a small command.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match
    from re import Pattern as Compiled


class Pattern:
    """What `re.compile(text)` gives, later; flags stand in the text: `(?i)`, `(?m)`, `(?s)`.

    Every match holds one of `words`, if there are any: a string without them is not even searched.
    """

    __slots__ = ("_compiled", "_text", "_words")

    def __init__(self, text: str, *words: str) -> None:
        self._text = text
        self._words = words
        self._compiled: Compiled[str] | None = None

    def search(self, string: str) -> Match[str] | None:
        """Return the first match."""
        return self.compiled().search(string) if self._may_match(string) else None

    def match(self, string: str) -> Match[str] | None:
        """Return the match at the beginning."""
        return self.compiled().match(string) if self._may_match(string) else None

    def finditer(self, string: str) -> Iterator[Match[str]]:
        """Return all matches."""
        return self.compiled().finditer(string) if self._may_match(string) else iter(())

    def compiled(self) -> Compiled[str]:
        """Return the pattern itself."""
        if self._compiled is None:
            import re

            self._compiled = re.compile(self._text)
        return self._compiled

    def _may_match(self, string: str) -> bool:
        return not self._words or any(word in string for word in self._words)
