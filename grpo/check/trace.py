"""Find the line of the values that causes a place in a rendered object.

The search does not parse templates: it changes each value, renders the chart again, and compares the place. Among
the values that change the place, it picks the one that changes the fewest other objects; a value that appears
verbatim at the place takes precedence over all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from postrender.errors import Location, RenderError
from postrender.types import Json, Path
from postrender.values import mutations
from postrender.values.merge import Values
from postrender.yaml import reader, stream
from postrender.yaml.reader import Node

# Kind and name of an object, and a path below it.
Place = tuple[tuple[str, str], Path]
Tell = Callable[[int, int], None]
Leaf = tuple[Path, Node]

_MISSING = object()


def identity(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the identity of a layer's object, which is the same in another rendering of the layer."""
    metadata = item.get("metadata")
    return str(item.get("kind")), str(metadata.get("name")) if isinstance(metadata, dict) else ""


class Origins:
    """The places of one layer, and the values that change them.

    `render` returns the layer's manifest for a given change of the values.
    """

    def __init__(self, values: Values, render: Callable[[Mapping[str, Any]], str]) -> None:
        self._values = values
        self._render = render
        self._read: dict[str, dict[str, Any] | None] = {}
        self._before = self._objects(self._render({}))

    def of(self, places: Sequence[Place], tell: Tell) -> dict[Place, tuple[Location, str]]:
        """Return, for each place, the location and path of the value that changes it; report progress to `tell`.

        Values that appear verbatim at the place are tried first, then those with a similar name, then all others. A
        match in an earlier group, which is the usual case, makes the later groups unnecessary.
        """
        found: dict[Place, tuple[Location, str]] = {}
        left = list(mutations.leaves(self._values.root))
        total, done = len(left), 0
        for likely in (self._stands_at, self._named_like, self._may_move):
            wanted = [place for place in places if place not in found]
            chosen = [leaf for leaf in left if any(likely(leaf, place) for place in wanted)]
            left = [leaf for leaf in left if leaf not in chosen]
            for place, leaf in self._best(wanted, chosen).items():
                found[place] = leaf[1].key_at, mutations.dotted(leaf[0])
            done += len(chosen)
            tell(done, total)
        tell(total, total)
        return found

    def _best(self, places: Sequence[Place], leaves: Sequence[Leaf]) -> dict[Place, Leaf]:
        """Return, for each place, the leaf that changes it and the fewest other objects."""
        tree = self._values.as_helm_merges()
        best: dict[Place, tuple[int, Leaf]] = {}
        for leaf in leaves:
            after = self._after(tree, leaf[0])
            moved = sum(after.get(name) != item for name, item in self._before.items()) if after else 0
            for place in places if moved else ():
                if self._differs(place, after) and (place not in best or moved < best[place][0]):
                    best[place] = moved, leaf
        return {place: leaf for place, (_, leaf) in best.items()}

    def _stands_at(self, leaf: Leaf, place: Place) -> bool:
        return _stands(leaf[1].value, self._value(self._before, place))

    def _named_like(self, leaf: Leaf, place: Place) -> bool:
        """Return whether a key of the leaf's path is also in the place's path, ignoring very common keys."""
        return not {*leaf[0][1:]}.isdisjoint(place[1])

    def _may_move(self, leaf: Leaf, place: Place) -> bool:
        return bool(leaf and place)

    def _after(self, tree: Mapping[str, Any], path: Path) -> dict[tuple[str, str], Any]:
        """Return the objects with one value changed; {} if Helm rejects every alternative value."""
        for value in mutations.candidates(mutations.at(tree, path)):
            try:
                return self._objects(self._render(mutations.changed(tree, path, value)))
            except RenderError:
                continue
        return {}

    def _objects(self, manifest: str) -> dict[tuple[str, str], Any]:
        """Parse a manifest; parse each distinct document only once."""
        found = {}
        for document in stream.split(manifest.encode("utf-8")):
            text = document.text()
            if text not in self._read:
                self._read[text] = _object(text)
            item = self._read[text]
            if item is not None:
                found[identity(item)] = item
        return found

    def _value(self, objects: Mapping[tuple[str, str], Any], place: Place) -> Json:
        name, path = place
        try:
            return mutations.at(objects[name], path)
        except (LookupError, TypeError):
            return _MISSING

    def _differs(self, place: Place, after: Mapping[tuple[str, str], Any]) -> bool:
        """Return whether a place has a different value after the change; False if the object's name has changed."""
        return place[0] in after and self._value(after, place) != self._value(self._before, place)


def _object(text: str) -> dict[str, Any] | None:
    return next(iter(reader.load_objects(text, "<rendered>")), None)


def _stands(value: Json, there: Json) -> bool:
    """Return whether a value equals the value at a place, or is part of its text."""
    if isinstance(value, (dict, list)) or value in (None, ""):
        return False
    return value == there or (isinstance(there, str) and not isinstance(value, bool) and str(value) in there)
