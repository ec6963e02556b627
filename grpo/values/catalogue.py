"""Look up each framework version's configuration keys, their types and the default configuration.

The catalogues are in schemas/catalogues/; `extract.py` there reads them from each version's source. Paths are
written with dots. A key of a map in a list has the list's path: `policy.scheduler.name`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

from postrender import facts
from postrender.errors import InputError

# The file of a framework that names its provisional versions.
_PROVISIONAL = "provisional"
# Keys that are allowed in any section: the chart's marker to replace a section, and Hydra's class name.
_MARKERS = {"_override_": "boolean", "_target_": "string"}


class Catalogue:
    """The keys of one version.

    `names` has the allowed words of some keys, by topic, `datasets` what each data set reads from its entry, and `vllm`
    the vLLM version.
    """

    __slots__ = (
        "_base",
        "_moved",
        "_open",
        "_sections",
        "datasets",
        "framework",
        "keys",
        "names",
        "required",
        "version",
        "vllm",
    )

    def __init__(self, framework: str, tree: Mapping[str, Any]) -> None:
        self.framework = framework
        self.version: str = tree["version"]
        self.vllm: str = tree.get("vllm", "")
        self.keys: dict[str, str | list[str | None]] = tree["keys"]
        self.names: dict[str, list[str]] = tree["names"]
        self.datasets: dict[str, dict[str, Any]] = tree.get("datasets", {})
        self.required = frozenset(tree["required"])
        self._open = frozenset(tree["open"])
        self._base: dict[str, Any] = tree["base"]
        self._moved: dict[str, str] | None = None
        self._sections: frozenset[str] | None = None

    @property
    def base(self) -> dict[str, Any]:
        """Return a new tree of the framework's default configuration, with interpolations as text."""
        tree: dict[str, Any] = {}
        for path, value in self._base.items():
            *sections, key = path.split(".")
            inside = tree
            for section in sections:
                inside = inside.setdefault(section, {})
            inside[key] = deepcopy(value)
        return tree

    def is_section(self, key: str) -> bool:
        """Return whether a key of the default configuration is a map."""
        return isinstance(self._base.get(key), dict) or any(path.startswith(f"{key}.") for path in self._base)

    def ships(self, key: str) -> bool:
        """Return whether the default configuration has a key or section."""
        return key in self._base or self.is_section(key)

    @property
    def sections(self) -> frozenset[str]:
        """Return the paths above all known keys."""
        if self._sections is None:
            parts = (key.split(".") for key in self.keys)
            self._sections = frozenset(".".join(part[:end]) for part in parts for end in range(1, len(part)))
        return self._sections

    @property
    def moved(self) -> dict[str, str]:
        """Map each key that only other versions have to its path in this version, or to an empty text.

        This reads the catalogues of the other versions, so use it only to explain an unknown key.
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

    def data_set_reads(self, name: str, key: str) -> bool:
        """Return whether a data set's class reads a key of its entry; true for an unknown class."""
        known, every = self.datasets.get(name), self.datasets.values()
        return known is None or key in known["arguments"] or not any(key in each["arguments"] for each in every)

    def knows(self, path: str) -> bool:
        """Return whether the version reads a key, or allows any key there."""
        path = _plain(path)
        return path in self.keys or self._is_below_open(path)

    def is_open(self, path: str) -> bool:
        """Return whether any key is allowed below a path."""
        path = _plain(path)
        return path in self._open or self.keys.get(path) == "any" or self._is_below_open(path)

    def _is_below_open(self, path: str) -> bool:
        section = path.rpartition(".")[0]
        while section:
            # Nothing is known about the content of a key that takes any value.
            if section in self._open or self.keys.get(section) == "any":
                return True
            section = section.rpartition(".")[0]
        return False

    def type_of(self, path: str) -> str | list[str | None] | None:
        """Return a key's type, as in `integer|null`, or its allowed words; None for an unknown key."""
        if marker := _MARKERS.get(path.rpartition(".")[2]):
            return marker if self.knows(path) else None
        path = _plain(path)
        if path in self.keys:
            return self.keys[path]
        return "any" if self._is_below_open(path) else None

    def allows(self, path: str, value: object) -> bool:
        """Return whether a value has its key's type; always true for an interpolation and for an unknown key."""
        allowed = self.type_of(path)
        return allowed is None or fits(allowed, value)

    def accepts(self, names: str, word: str) -> bool:
        """Return whether a word is one of a topic's names; true if the version has no such topic."""
        known = self.names.get(names)
        return known is None or word in known or ("*.*" in known and "." in word)


def fits(allowed: str | list[str | None], value: object) -> bool:
    """Return whether a value has a type, as in `integer|null`, or is an allowed word; always true for references."""
    if allowed == "any" or (isinstance(value, str) and "${" in value):
        return True
    return value in allowed if isinstance(allowed, list) else not _kinds(value).isdisjoint(allowed.split("|"))


def library(name: str) -> dict[str, Any]:
    """Return the arguments of the library classes that NeMo RL configurations name; `name` is "torch" or "megatron"."""
    return _read("libraries", name)


@cache
def load(framework: str, version: str) -> Catalogue:
    """Return a version's catalogue; raise InputError if there is none."""
    if version not in versions(framework):
        known = ", ".join(versions(framework)) or "none"
        raise InputError(
            f"the keys of {framework} {version} are not known; known versions: {known}",
            fix="set job.version to one of them",
        )
    return Catalogue(framework, _read(framework, version))


class EngineArguments(NamedTuple):
    """The vLLM engine's arguments with their types or words, and those that only one of its two classes takes."""

    keys: Mapping[str, str | list[str | None]]
    offline: Sequence[str]
    served: Sequence[str]


@cache
def engine(version: str) -> EngineArguments:
    """Return the engine arguments of a vLLM version."""
    tree = _read("vllm", version)
    return EngineArguments(tree["keys"], tree["offline"], tree["served"])


def words(framework: str) -> dict[str, str]:
    """Return a one-line description of each documented key; empty for a framework without a file of descriptions."""
    return _read(framework, "words") if "words" in _names(framework) else {}


def provisional(framework: str, version: str) -> str:
    """Return one sentence about a version whose own source was not read; an empty text for any other version."""
    entries = _read(framework, _PROVISIONAL) if _PROVISIONAL in _names(framework) else {}
    return sentence(framework, version, entries[version]) if version in entries else ""


def sentence(framework: str, version: str, entry: Mapping[str, str]) -> str:
    """Return the sentence about a provisional version; `entry` names the commit that stands in for its source."""
    commit = f"the project's {entry['branch']} at {entry['commit'][:8]} ({entry['date']})"
    reason = "its own source was not read, so it is judged by its release notes, the packages that they name, and"
    return f"{framework} {version} is provisional: {reason} {commit}"


def newest(framework: str) -> str:
    """Return the newest version that is not provisional."""
    return [version for version in versions(framework) if not provisional(framework, version)][-1]


def versions(framework: str) -> list[str]:
    """Return the versions of a framework that have a catalogue, oldest first."""
    found = [name for name in _names(framework) if name.strip("v")[:1].isdigit()]
    return sorted(found, key=lambda version: [int(part) for part in version.strip("v").split(".")])


def _names(framework: str) -> list[str]:
    # The framework comes from the user, so look it up in the folder instead of building a path from it.
    folder = facts.path("catalogues")
    if framework not in os.listdir(folder):
        return []
    return [name.removesuffix(".json") for name in os.listdir(os.path.join(folder, framework))]


def _read(framework: str, name: str) -> dict[str, Any]:
    tree: dict[str, Any] = facts.load(f"catalogues/{framework}/{name}.json")
    return tree


def _plain(path: str) -> str:
    """Return a path without list positions and without a trailing marker."""
    section, _, key = path.rpartition(".")
    path = section if key in _MARKERS else path
    return ".".join(part for part in path.split(".") if not part.isdigit()) if any(map(str.isdigit, path)) else path


def _kinds(value: object) -> set[str]:
    """Return the types that a value matches: 1.0 is also an integer."""
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"} if value % 1 == 0 else {"number"}
    names = {str: "string", list: "list", dict: "map", type(None): "null"}
    return {names.get(type(value), "any")}
