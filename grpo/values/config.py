"""Build the configuration that a run's framework gets from the chart.

The layers in order: the base file of the framework's version, job.config, the version's overlay, the accelerator's
overlay, the keys that the chart derives. tests/grpo/test_config.py compares the result with the
rendered chart and with the frameworks' own loaders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from grpo.values import catalogue
from grpo.values.catalogue import Catalogue
from grpo.values.derived import Derived, mapping
from grpo.values.reference_errors import DanglingError, UnknownError
from postrender.types import Json
from postrender.values import merge
from postrender.values.merge import value_at

OVERRIDE: Final = "_override_"
# The key of the model, which trainer, reference and generation read.
MODEL: Final = {"nemo-rl": "policy.model_name", "verl": "actor_rollout_ref.model.path"}
# What a key of the values begins with; other keys are those of the framework's configuration.
OF_VALUES: Final = "="
# From this version on, NeMo RL itself reads the marker in top-level sections.
_READS_OVERRIDE = (0, 6, 0)


def _resolve(tree: Mapping[str, Any], path: tuple[str, ...]) -> Json:
    # OmegaConf is needed only where a run is described, and takes long to import.
    from grpo.values.references import resolve  # noqa: PLC0415

    return resolve(tree, path)


def overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge one tree over another as the chart does: a map with `_override_: true` replaces the map below it."""
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
    """Return the keys of job.configFor that apply, in the order in which they are merged."""
    job, accelerator = mapping(tree.get("job")), mapping(tree.get("accelerator"))
    return [name for name in (job.get("version"), accelerator.get("name")) if isinstance(name, str)]


class RunConfig:
    """A stack's values with the charts' defaults, and the run configuration that results from them.

    `config` is the framework's complete configuration, `given` the part that the files set, `gpus` the GPUs per node.
    The cluster has `have` GPU nodes, the job requests `wanted`, and rules calculate with `nodes`.
    """

    def __init__(
        self,
        tree: Mapping[str, Any],
        default: Mapping[str, Any] | None = None,
        inherits: Callable[[str, str], bool] = lambda key, other: False,
        is_later: Callable[[str, str], bool] = lambda key, other: False,
    ) -> None:
        """Build the configuration from the values; `default` replaces the framework's own default configuration.

        `inherits` says whether a key comes from the recipe while a later file sets another key; `is_later` says whether
        a key is set in a later file than another key.
        """
        self.values = tree
        self.inherits = inherits
        self.is_later = is_later
        self._default = default
        job, accelerator, ray = mapping(tree.get("job")), mapping(tree.get("accelerator")), mapping(tree.get("ray"))
        self.framework = str(job.get("framework"))
        self.version = str(job.get("version"))
        self.release = tuple(int(part) for part in self.version.removeprefix("v").split(".") if part.isdecimal())
        self.accelerator = str(accelerator.get("name"))
        self.gpus = _count(accelerator.get("gpusPerNode"))
        self.have = _count(mapping(ray.get("workers")).get("replicas"))
        self.have += mapping(mapping(ray.get("head")).get("gpus")).get("enabled") is True
        self.wanted = _count(job.get("nodes")) or self.have
        # A rule of its own reports a job that asks for more nodes than there are.
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
        self.source_of = derived.source
        self.given = derived.decided(self.framework, self.given)
        self.config = overlaid(base, merge.overlay(self.given, self.derived))

    @property
    def model(self) -> Json:
        """Return the model's name or path; None if the configuration does not set it."""
        try:
            return self.at(MODEL[self.framework]) if self.framework in MODEL else None
        except UnknownError:
            return None

    @property
    def trains(self) -> bool:
        """Return whether the job trains; any other task uses one node and no framework configuration."""
        return self.value("job.task") in (None, "train")

    def _base(self, layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the base file without the sections that job.config replaces."""
        base = self.catalogue.base if self._default is None else dict(self._default)
        if self.framework != "nemo-rl" or self.release < _READS_OVERRIDE:
            return base
        marked = {
            key: mapping(value)[OVERRIDE]
            for layer in layers
            for key, value in layer.items()
            if OVERRIDE in mapping(value)
        }
        return {key: value for key, value in base.items() if marked.get(key) is not True}

    def changed(self, edits: Mapping[str, Json]) -> RunConfig:
        """Return the run with some values changed, by their keys in the configuration or, after `=`, in the values."""
        tree = self.values
        for key, value in edits.items():
            # The overlay of the accelerator is the last one that is merged.
            of_values = key.startswith(OF_VALUES)
            path = key[1:].split(".") if of_values else ["job", "configFor", self.accelerator, *key.split(".")]
            tree = merge.overlay(tree, merge.nested(path, value))
        return RunConfig(tree, self._default, self.inherits)

    def _with_sections(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Return `given`, resolving each section that is a single reference: `policy: ${other}`."""
        whole = overlaid(base, self.given)
        found = dict(self.given)
        for key in self.unknown_sections():
            try:
                section = _resolve(whole, (key,))
            except (UnknownError, DanglingError, KeyError):
                continue
            if isinstance(section, dict):
                found[key] = section
        return found

    def unknown_sections(self) -> list[str]:
        """Return the configuration sections that are a text with a reference instead of a map."""
        texts = [key for key, value in self.given.items() if isinstance(value, str) and "${" in value]
        return list(filter(self.is_broken, texts))

    def since(self, version: str) -> bool:
        """Return whether the framework has this version or a later one."""
        return self.release >= tuple(int(part) for part in version.removeprefix("v").split("."))

    def at(self, path: str, default: Json = None) -> Json:
        """Return a configuration value by its dotted path, or the default if it is not set.

        Raises UnknownError if only the running job knows the value.
        """
        try:
            return _resolve(self.config, tuple(path.split(".")))
        except KeyError:
            return default
        except DanglingError as error:
            raise UnknownError(path) from error

    def is_whole(self) -> bool:
        """Return whether every section that is a map in the base file is still a map."""
        return not any(map(self.is_broken, self.given))

    def is_broken(self, key: str) -> bool:
        """Return whether the files replace a section, which is a map in the base file, with something else."""
        return key in self.given and not isinstance(self.given[key], dict) and self.catalogue.is_section(key)

    def derives(self, path: str) -> bool:
        """Return whether the chart derives a key."""
        return _has(self.derived, path)

    def given_has(self, path: str) -> bool:
        """Return whether the values files set a key of the configuration."""
        return _has(self.given, path)

    def value(self, path: str) -> Json:
        """Return a value by its path from the root of the values, or None."""
        try:
            return value_at(self.values, tuple(path.split(".")))
        except KeyError:
            return None

    def variable(self, name: str, sections: Sequence[str] = ("job.env", "ray.env")) -> str:
        """Return an environment variable's value from the first section that sets it, or an empty text.

        The default sections are the driver's.
        """
        for section in sections:
            given = mapping(self.value(section)).get(name)
            found = given.get("value") if isinstance(given, dict) else given
            if found is not None:
                return str(found)
        return ""

    def has(self, path: str) -> bool:
        """Return whether a key is set, possibly to null."""
        missing = object()
        return self.at(path, missing) is not missing

    def integer(self, path: str) -> int:
        """Return an integer; raise UnknownError for any other value, which another rule reports."""
        value = self._counted(path)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UnknownError(path)
        return value

    def _counted(self, path: str) -> Json:
        """Return a value, converting a text to a number if the framework does so; another rule reports the type."""
        value = self.at(path)
        if not isinstance(value, str) or self.framework != "nemo-rl" or not self.since("v0.7.0"):
            return value
        try:
            number = float(value)
        except ValueError:
            return value
        return number if abs(number) < _LARGEST else value

    def number(self, path: str) -> float:
        """Return a number; raise UnknownError for any other value."""
        value = self._counted(path)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise UnknownError(path)
        return value

    def on(self, path: str) -> bool:
        """Return whether a switch is on; a missing switch is off."""
        return bool(self.at(path))


# Rules do not calculate with larger numbers.
_LARGEST = 2.0**53


def _has(tree: Mapping[str, Any], path: str) -> bool:
    try:
        value_at(tree, tuple(path.split(".")))
    except KeyError:
        return False
    return True


def _count(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
