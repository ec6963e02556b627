"""What a version of a training framework knows about its configuration: keys, their types, the file below the user's.

The facts are those of schemas/catalogues/, which `extract.py` there reads from the source of each version. A path is
written with dots, and a key of a map in a list has the path of the list: `policy.scheduler.name`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from postrender import facts
from postrender.errors import InputError

# Words of the chart and of Hydra that may stand in any section: it replaces the one below; what it is built as.
_MARKERS = {"_override_": "boolean", "_target_": "string"}


class Catalogue:
    """Hold the facts of one version; `names` are the words that some keys take, by what they name."""

    __slots__ = ("_base", "_moved", "_open", "framework", "keys", "names", "required", "version")

    def __init__(self, framework: str, tree: Mapping[str, Any]) -> None:
        self.framework = framework
        self.version: str = tree["version"]
        self.keys: dict[str, str | list[str | None]] = tree["keys"]
        self.names: dict[str, list[str]] = tree["names"]
        self.required = frozenset(tree["required"])
        self._open = frozenset(tree["open"])
        self._base: dict[str, Any] = tree["base"]
        self._moved: dict[str, str] | None = None

    @property
    def base(self) -> dict[str, Any]:
        """Return a new tree of the configuration that lies below every run's, interpolations as text."""
        tree: dict[str, Any] = {}
        for path, value in self._base.items():
            *sections, key = path.split(".")
            inside = tree
            for section in sections:
                inside = inside.setdefault(section, {})
            inside[key] = deepcopy(value)
        return tree

    @property
    def moved(self) -> dict[str, str]:
        """Return the keys of other versions that this one does not know, and where they stand here, or an empty text.

        Reads the catalogues of the other versions, so ask for it when there is an unknown key to explain.
        """
        if self._moved is None:
            self._moved = dict.fromkeys(self._elsewhere(), "")
            for old, new in _read(self.framework, "moves").items():
                for here, there in ((new, old), (old, new)):
                    if self.knows(here) and not self.knows(there):
                        self._moved[there] = self._moved.get(there) or here
        return self._moved

    def _elsewhere(self) -> list[str]:
        others = (load(self.framework, version) for version in versions(self.framework) if version != self.version)
        return sorted({path for other in others for path in other.keys if not self.knows(path)})

    def knows(self, path: str) -> bool:
        """Say whether the version reads a key, or lets any key stand there."""
        path = _plain(path)
        return path in self.keys or self._is_below_open(path)

    def is_open(self, path: str) -> bool:
        """Say whether any key may stand below a path."""
        path = _plain(path)
        return path in self._open or self.keys.get(path) == "any" or self._is_below_open(path)

    def _is_below_open(self, path: str) -> bool:
        section = path.rpartition(".")[0]
        while section:
            # Of what a key holds that takes anything, nothing is known.
            if section in self._open or self.keys.get(section) == "any":
                return True
            section = section.rpartition(".")[0]
        return False

    def type_of(self, path: str) -> str | list[str | None] | None:
        """Return what fits: kinds as in `integer|null`, or a list of words; None for a key that is not known."""
        if marker := _MARKERS.get(path.rpartition(".")[2]):
            return marker if self.knows(path) else None
        path = _plain(path)
        if path in self.keys:
            return self.keys[path]
        return "any" if self._is_below_open(path) else None

    def allows(self, path: str, value: object) -> bool:
        """Say whether a value is of the type of its key; an interpolation and an unknown key always are."""
        allowed = self.type_of(path)
        if allowed is None or allowed == "any" or (isinstance(value, str) and "${" in value):
            return True
        return value in allowed if isinstance(allowed, list) else not _kinds(value).isdisjoint(allowed.split("|"))

    def accepts(self, names: str, word: str) -> bool:
        """Say whether a word is one of some names; true where the version has no such names."""
        known = self.names.get(names)
        return known is None or word in known or ("*.*" in known and "." in word)


@cache
def load(framework: str, version: str) -> Catalogue:
    """Return the catalogue of a version; raise InputError where there is none."""
    if version not in versions(framework):
        known = ", ".join(versions(framework)) or "none"
        raise InputError(
            f"the keys of {framework} {version} are not known; known versions: {known}",
            fix="set job.version to one of them",
        )
    return Catalogue(framework, _read(framework, version))


def words(framework: str) -> dict[str, str]:
    """Return what some keys mean, a line each; nothing for a framework of which nobody has written that."""
    return _read(framework, "words") if "words" in _names(framework) else {}


def versions(framework: str) -> list[str]:
    """Return the versions of a framework that have a catalogue, oldest first."""
    found = [name for name in _names(framework) if name.strip("v")[:1].isdigit()]
    return sorted(found, key=lambda version: [int(part) for part in version.strip("v").split(".")])


def _names(framework: str) -> list[str]:
    # The framework is a person's word: it is compared, and never a part of a path.
    folder = facts.path("catalogues")
    if framework not in os.listdir(folder):
        return []
    return [name.removesuffix(".json") for name in os.listdir(os.path.join(folder, framework))]


def _read(framework: str, name: str) -> dict[str, Any]:
    tree: dict[str, Any] = facts.load(f"catalogues/{framework}/{name}.json")
    return tree


def _plain(path: str) -> str:
    """Return a path without the positions in lists, and without a marker at its end."""
    section, _, key = path.rpartition(".")
    path = section if key in _MARKERS else path
    return ".".join(part for part in path.split(".") if not part.isdigit()) if any(map(str.isdigit, path)) else path


def _kinds(value: object) -> set[str]:
    """Return the kinds that a value may be taken for: a whole number is one, however it is written."""
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"} if value % 1 == 0 else {"number"}
    names = {str: "string", list: "list", dict: "map", type(None): "null"}
    return {names.get(type(value), "any")}
