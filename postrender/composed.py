"""Find where the parts of any document stand, by the events of the full parser; the slow twin of `blocks`."""

from __future__ import annotations

from postrender import scalars, yamlio
from postrender.errors import InputError
from postrender.spots import Spot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postrender.plain import Foreign

_MAX_DEPTH = 100


def scan(text: str, name: str) -> Spot:
    """Return the root of a document's only value; raise InputError where it is no YAML or nests too deep."""
    return _Reader(text, name).spot(0)


class _Reader:
    """Turn parser events into spots; an alias is the spot of its anchor."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._events = yamlio.events(text, name)
        self._anchors: dict[str, Spot] = {}

    def spot(self, depth: int) -> Spot:
        return self._spot(next(self._events), depth)

    def _spot(self, event: Foreign, depth: int) -> Spot:
        kind = type(event).__name__
        if depth > _MAX_DEPTH:
            raise InputError(f"nested deeper than {_MAX_DEPTH} levels", fix="flatten the object")
        if kind == "AliasEvent":
            return self._alias(event)
        start, end = event.start_mark.index, event.end_mark.index
        if kind == "ScalarEvent":
            # A block text ends behind its empty lines, which belong to what follows as well.
            spot = Spot("scalar", start, start + len(self._text[start:end].rstrip(" \t\r\n")))
        else:
            spot = Spot("map" if kind == "MappingStartEvent" else "list", start, end, flow=bool(event.flow_style))
            (self._map if spot.kind == "map" else self._list)(spot, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = spot
        return spot

    def _alias(self, event: Foreign) -> Spot:
        spot = self._anchors.get(event.anchor)
        if spot is None:
            raise InputError(f"the alias *{event.anchor} contains itself, or nothing above it has that name")
        return spot

    def _map(self, spot: Spot, depth: int) -> None:
        while (event := next(self._events)).__class__.__name__ != "MappingEndEvent":
            if not spot.keys:
                spot.first, spot.col = event.start_mark.index, event.start_mark.column
            is_text = event.__class__.__name__ == "ScalarEvent"
            if not is_text:
                self._spot(event, depth + 1)
            # A key that is no text is nothing that anybody wires.
            key = _key(event) if is_text else f"\0{event.start_mark.index}"
            spot.starts[key] = event.start_mark.index
            spot.keys[key] = value = self.spot(depth + 1)
            if value.start > spot.start:
                spot.until(value.end)
        if spot.flow:
            spot.until(event.end_mark.index)

    def _list(self, spot: Spot, depth: int) -> None:
        while (event := next(self._events)).__class__.__name__ != "SequenceEndEvent":
            item = self._spot(event, depth + 1)
            if not spot.items:
                # An anchor stands before the first dash, on the line of the key.
                begin = event.start_mark.index
                spot.first = spot.start if self._text[spot.start] == "-" else self._text.rfind("-", 0, begin)
                spot.col = spot.first - self._text.rfind("\n", 0, spot.first) - 1
            spot.items.append(item)
            if item.start > spot.start:
                spot.until(item.end)
        if spot.flow:
            spot.until(event.end_mark.index)


def _key(event: Foreign) -> str:
    """Return a key as Kubernetes reads it: the unquoted n is the text false."""
    text: str = event.value
    value = scalars.resolve(text) if event.implicit[0] else text
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else text
