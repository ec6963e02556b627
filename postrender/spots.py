"""Where the parts of a document stand in its text; two modules make these, and `splice` edits by them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MAP: Final = "map"
LIST: Final = "list"
SCALAR: Final = "scalar"
# A value in braces or brackets of which only the ends are known.
CLOSED: Final = "closed"


class Spot:
    """Hold the place of one value: `start` and `end` are offsets in characters, `end` before a comment or a line's end.

    A map has `keys`, a list has `items`. In block style `col` is the column of its keys or dashes, and `first` the
    offset of the first of them. `flow` says that it stands in braces or brackets, `shared` that an anchor or an alias
    makes one text stand for several values.
    """

    __slots__ = ("col", "end", "first", "flow", "items", "keys", "kind", "shared", "start")

    def __init__(self, kind: str, start: int, end: int, *, flow: bool = False, shared: bool = False) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.flow = flow
        self.shared = shared
        self.col = 0
        self.first = start
        self.keys: dict[str, Spot] = {}
        self.items: list[Spot] = []
