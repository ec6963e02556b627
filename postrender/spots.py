"""Where the parts of a document stand in its text; `blocks`, `composed` and the compiled reader say it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    # Of a closed value, which stands in braces or brackets, only the ends are known.
    Kind = Literal["map", "list", "scalar", "closed"]


class Spot:
    """Hold the place of one value: `start` and `end` are offsets in characters, `end` before a comment or a line's end.

    A map has `keys`, which start at `starts`, and a list has `items`. In block style `col` is the column of its keys or
    dashes, and `first` the offset of the first of them. `flow` says that it stands in braces or brackets.
    """

    def __init__(self, kind: Kind, start: int, end: int, *, flow: bool = False) -> None:
        self.kind: Kind = kind
        self.start = start
        self.flow = flow
        self.col = 0
        self.first = start
        self._end = end
        self._keys: dict[str, Spot] = {}
        self.starts: dict[str, int] = {}
        self._items: list[Spot] = []

    def until(self, end: int) -> None:
        """Set the end, which for a collection is known when its last value is."""
        self._end = end

    @property
    def end(self) -> int:
        """Return the offset behind the value."""
        return self._end

    @property
    def keys(self) -> dict[str, Spot]:
        """Return the values of a map."""
        return self._keys

    def has(self, key: str) -> bool:
        """Say whether a map has a key."""
        return key in self._keys

    def child(self, key: str) -> Spot:
        """Return the value of a key that is there."""
        return self._keys[key]

    def key_start(self, key: str) -> int:
        """Return the offset of a key that is there."""
        return self.starts[key]

    def names(self) -> list[str]:
        """Return the keys in their order."""
        return list(self._keys)

    def count(self) -> int:
        """Return the number of items of a list."""
        return len(self._items)

    def item(self, number: int) -> Spot:
        """Return one item of a list."""
        return self._items[number]

    @property
    def items(self) -> list[Spot]:
        """Return the items of a list."""
        return self._items


def offset(root: Spot, path: Sequence[str | int], *, key: bool) -> int | None:
    """Return where the value of a path stands, or its key, or what is nearest above; None or NotPlainError: unknown."""
    spot, at = root, root.start
    for part in path:
        if spot.kind == "map" and spot.has(str(part)):
            at, spot = spot.key_start(str(part)), spot.child(str(part))
        elif spot.kind == "list" and isinstance(part, int) and part < spot.count():
            at, spot = spot.item(part).start, spot.item(part)
        elif spot.kind == "closed":
            return None
        else:
            break
    # Nothing stands where a value is left out.
    return None if spot.start == spot.end else at if key else spot.start
