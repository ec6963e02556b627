"""The configuration that a run's framework gets, as the chart and the framework put it together.

The order: base file of the framework's version, job.config, the overlay of the version, that of the accelerator, what
the chart derives. tests/postrender/test_effective.py compares it with what the chart renders, and with the frameworks'
own loaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from postrender.types import Json
from postrender.values import catalogue, merge
from postrender.values.catalogue import Catalogue
from postrender.values.derived import Derived, mapping
from postrender.values.merge import value_at
from postrender.values.reference_errors import DanglingError, UnknownError
from postrender.values.references import resolve

OVERRIDE: Final = "_override_"
# From here on NeMo RL itself reads the marker, in the sections of the first level.
_READS_OVERRIDE = (0, 6, 0)


def overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one tree over another as the chart does: maps go deep, and one with `_override_: true` replaces."""
    merged = dict(under)
    for key, value in over.items():
        if key == OVERRIDE:
            continue
        below = merged.get(key)
        if not isinstance(value, dict):
            merged[key] = value
        elif value.get(OVERRIDE) is True or not isinstance(below, dict):
            merged[key] = overlaid({}, value)
        else:
            merged[key] = overlaid(below, value)
    return merged


def overlay_names(tree: Mapping[str, Any]) -> list[str]:
    """Return the keys of job.configFor that count, in the order in which they are laid."""
    job, accelerator = mapping(tree.get("job")), mapping(tree.get("accelerator"))
    return [name for name in (job.get("version"), accelerator.get("name")) if isinstance(name, str)]


class Effective:
    """Hold the values of a stack with the charts' defaults, and what follows from them for the run.

    `config` is the framework's whole configuration, `given` what the files say of it, `gpus` those of a node. Of GPU
    nodes the cluster has `have`, the job asks for `wanted`, and rules reckon with `nodes`.
    """

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self.values = tree
        job, accelerator, ray = mapping(tree.get("job")), mapping(tree.get("accelerator")), mapping(tree.get("ray"))
        self.framework = str(job.get("framework"))
        self.version = str(job.get("version"))
        self.release = tuple(int(part) for part in self.version.removeprefix("v").split(".") if part.isdecimal())
        self.accelerator = str(accelerator.get("name"))
        self.gpus = _count(accelerator.get("gpusPerNode"))
        self.have = _count(mapping(ray.get("workers")).get("replicas"))
        self.have += mapping(mapping(ray.get("head")).get("gpus")).get("enabled") is True
        self.wanted = _count(job.get("nodes")) or self.have
        # More than there are is told by itself, and nothing that would follow from them.
        self.nodes = min(self.wanted, self.have)
        self.catalogue: Catalogue = catalogue.load(self.framework, self.version)
        layers = [
            mapping(job.get("config")),
            *(mapping(mapping(job.get("configFor")).get(name)) for name in overlay_names(tree)),
        ]
        self.given: dict[str, Any] = {}
        for layer in layers:
            self.given = overlaid(self.given, layer)
        base = self._base(layers)
        self.given = self._with_sections(base)
        derived = Derived(tree, self.release, self.nodes, self.gpus)
        self.derived = derived.verl(self.given) if self.framework == "verl" else derived.nemo_rl(self.given)
        self.given = derived.decided(self.framework, self.given)
        self.config = overlaid(base, merge.overlay(self.given, self.derived))

    def _base(self, layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the base file without the sections that job.config replaces as a whole."""
        base = self.catalogue.base
        if self.framework != "nemo-rl" or self.release < _READS_OVERRIDE:
            return base
        marked = {
            key: mapping(value)[OVERRIDE]
            for layer in layers
            for key, value in layer.items()
            if OVERRIDE in mapping(value)
        }
        return {key: value for key, value in base.items() if marked.get(key) is not True}

    def _with_sections(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the files say, with the sections that are one reference: `policy: ${other}`."""
        whole = overlaid(base, self.given)
        found = dict(self.given)
        for key in self.unknown_sections():
            try:
                section = resolve(whole, (key,))
            except (UnknownError, DanglingError, KeyError):
                continue
            if isinstance(section, dict):
                found[key] = section
        return found

    def unknown_sections(self) -> list[str]:
        """Return the sections of the configuration that are a text with a reference."""
        texts = [key for key, value in self.given.items() if isinstance(value, str) and "${" in value]
        return list(filter(self.is_broken, texts))

    def since(self, version: str) -> bool:
        """Say whether the framework is of this version or a later one."""
        return self.release >= tuple(int(part) for part in version.removeprefix("v").split("."))

    def at(self, path: str, default: Json = None) -> Json:
        """Return a value of the configuration by its dotted path, or the default where it is not there.

        Raises UnknownError where only the running job knows it.
        """
        try:
            return resolve(self.config, tuple(path.split(".")))
        except KeyError:
            return default
        except DanglingError as error:
            raise UnknownError(path) from error

    def is_whole(self) -> bool:
        """Say whether every section of the base file that is a map is one still."""
        return not any(map(self.is_broken, self.given))

    def is_broken(self, key: str) -> bool:
        """Say whether the files make something else of a section that is a map in the base file."""
        is_section = isinstance(self.catalogue.base.get(key), dict)
        return is_section and key in self.given and not isinstance(self.given[key], dict)

    def derives(self, path: str) -> bool:
        """Say whether the chart writes a key, which another rule compares."""
        return _has(self.derived, path)

    def given_has(self, path: str) -> bool:
        """Say whether the values files set a key of the configuration."""
        return _has(self.given, path)

    def value(self, path: str) -> Json:
        """Return a value from the root of the values, None where it is not there."""
        try:
            return value_at(self.values, tuple(path.split(".")))
        except KeyError:
            return None

    def variable(self, name: str) -> str:
        """Return a variable of the driver as far as the values know it, from job.env or ray.env; else an empty text."""
        for section in ("job", "ray"):
            given = mapping(mapping(self.values.get(section)).get("env")).get(name)
            found = given.get("value") if isinstance(given, dict) else given
            if found is not None:
                return str(found)
        return ""

    def has(self, path: str) -> bool:
        """Say whether a key is there, null or not."""
        missing = object()
        return self.at(path, missing) is not missing

    def integer(self, path: str) -> int:
        """Return a whole number; raise UnknownError where it is none, which another rule tells."""
        value = self._counted(path)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UnknownError(path)
        return value

    def _counted(self, path: str) -> Json:
        """Return a value, and of a text the number that the framework reads in it; the type is another rule's."""
        value = self.at(path)
        if not isinstance(value, str) or self.framework != "nemo-rl" or not self.since("v0.7.0"):
            return value
        try:
            number = float(value)
        except ValueError:
            return value
        return number if abs(number) < _LARGEST else value

    def number(self, path: str) -> float:
        """Return a number; raise UnknownError where it is none."""
        value = self._counted(path)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise UnknownError(path)
        return value

    def on(self, path: str) -> bool:
        """Say whether a switch is on; one that is not there is off."""
        return bool(self.at(path))


# Beyond it a number is none that a rule could compute with.
_LARGEST = 2.0**53


def _has(tree: Mapping[str, Any], path: str) -> bool:
    try:
        value_at(tree, tuple(path.split(".")))
    except KeyError:
        return False
    return True


def _count(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
