"""Locate a key's effective value: a framework key may be in job.config or in an overlay."""

from __future__ import annotations

from collections.abc import Sequence

from grpo.values.config import OVERRIDE, overlay_names
from postrender import paths
from postrender.errors import Location
from postrender.types import Path
from postrender.values.merge import Values

_CONFIG = ("job", "config")


def parts(key: str) -> tuple[str, ...]:
    """Return the names in a key; a dot after a backslash is part of a name."""
    return tuple(part.replace("\0", ".") for part in key.replace("\\.", "\0").split("."))


class ValueLocator:
    """Find the places of values by their keys, such as `job.config.grpo.val_period`."""

    def __init__(self, merged: Values, overlays: Sequence[str]) -> None:
        self._values = merged
        # The overlay that the chart applies last wins.
        self._roots: list[Path] = [*(("job", "configFor", name) for name in reversed(overlays)), _CONFIG]

    @classmethod
    def of(cls, merged: Values) -> ValueLocator:
        """Return the locator for merged values files."""
        return cls(merged, overlay_names(merged.as_helm_merges()))

    def path(self, key: str) -> Path | None:
        """Return the path of a key's effective value, or None if no file sets it."""
        path = parts(key)
        if path[:2] != _CONFIG:
            return path if self._values.node(path) else None
        for root in self._roots:
            here = (*root, *path[2:])
            if self._values.node(here):
                return here
            if self._hides(root, path[2:]):
                return None
        return None

    def target(self, key: str) -> Path:
        """Return the path where a new value for a key takes effect: its current path, or else the key itself."""
        return self.path(key) or parts(key)

    def _hides(self, root: Path, path: Path) -> bool:
        """Return whether an overlay replaces a section above a key, so that values in other places have no effect."""
        for depth in range(1, len(path)):
            node = self._values.node((*root, *path[:depth], OVERRIDE))
            if node is not None and node.value is True and root != _CONFIG:
                return True
        return False

    def inherits(self, key: str, other: str) -> bool:
        """Return whether a key comes from a recipe, packaged or the user's own, while a later file sets another key."""
        path, after = self.path(key), self.path(other)
        if path is None or after is None:
            return False
        place, later = self._rank(path), self._rank(after)
        documents = self._values.documents
        # What names the version is a whole recipe, and not a choice of its own.
        return place < later and place < len(documents) and Values(documents[place], []).get("job.version") is not None

    def is_later(self, key: str, other: str) -> bool:
        """Return whether a key is set in a later file than another key."""
        path, before = self.path(key), self.path(other)
        if path is None or before is None:
            return False
        return self._rank(before) < self._rank(path) < len(self._values.files)

    def _rank(self, path: Path) -> int:
        """Return the index of the file that sets a value, counted from 0."""
        node, files = self._values.node(path), self._values.files
        return files.index(node.at.file) if node and node.at.file in files else len(files)

    def place(self, keys: Sequence[str]) -> tuple[Location, list[tuple[Location, str]]]:
        """Return where to edit, and the other keys' places.

        The place to edit is the first key that a user's file sets, or else the first key that is set, or else the
        nearest map above a key: packaged files are not wrong by themselves.
        """
        found = [path for key in keys if (path := self.path(key))]
        if not found:
            return self._above(keys), []
        places = [(self._values.at(path), ".".join(map(str, path))) for path in found]
        at = next((each for each, _ in places if not paths.is_packaged(each.file)), places[0][0])
        return at, [each for each in places if each[0] != at]

    def _above(self, keys: Sequence[str]) -> Location:
        """Return the place of the nearest section above the keys, or of job.version if only the base file sets it."""
        for key in keys:
            path = [*parts(key)]
            # Of job.config itself another file may have set the version.
            least = len(_CONFIG) if path[0] == _CONFIG[0] else 0
            while len(path) > max(least, 1):
                path.pop()
                above = self.path(".".join(part.replace(".", "\\.") for part in path))
                if above and len(above) > least:
                    return self._values.at(above)
        return self._values.at(("job", "version"))
