"""Read a framework's own configuration, without our charts, and its overrides."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from grpo.values import catalogue
from grpo.values.config import RunConfig, overlaid
from grpo.values.derived import mapping
from postrender.errors import InputError, UsageError
from postrender.values import merge
from postrender.yaml import reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from postrender.types import Json

FRAMEWORKS: Final = ("nemo-rl", "verl")
# Where a configuration says how many nodes and GPUs per node it is for.
_NODES: Final = {"nemo-rl": ("cluster", "num_nodes"), "verl": ("trainer", "nnodes")}
_GPUS: Final = {"nemo-rl": ("cluster", "gpus_per_node"), "verl": ("trainer", "n_gpus_per_node")}
# The file that NeMo RL's own recipes start from.
_DEFAULT: Final = "grpo_math_1B.yaml"
_DEFAULTS: Final = "defaults"


def run_of(
    framework: str,
    version: str,
    file: str | None,
    overrides: Sequence[str],
    accelerator: Mapping[str, Any],
    nodes: int | None = None,
) -> RunConfig:
    """Return the run for a configuration on a machine, given by the values' `accelerator` section.

    `nodes` replaces the number of nodes in the configuration. A NeMo RL configuration has its own `defaults`; a verl
    configuration is composed over verl's default configuration, as Hydra does.
    Raises InputError if a file cannot be read, or if a number of nodes or GPUs is below 1; UsageError if an
    override cannot be applied.
    """
    is_nemo_rl = framework == "nemo-rl"
    base = catalogue.load(framework, version).base
    config = _with_defaults(file, base) if file and is_nemo_rl else _read(file) if file else {}
    # Hydra's list of files names verl's own default configuration.
    config.pop(_DEFAULTS, None)
    default: Mapping[str, Any] = {} if file and is_nemo_rl else base
    for text in overrides:
        config = _overridden(config, text)
    whole = overlaid(default, config)
    gpus = _number(config, _GPUS[framework]) or accelerator["gpusPerNode"]
    count = gpus * (nodes or _number(whole, _NODES[framework]) or 1)
    # A machine may have fewer GPUs than the configuration says; the run then needs more of them.
    gpus = min(gpus, accelerator["gpusPerNode"])
    tree = {
        "accelerator": {**accelerator, "gpusPerNode": gpus},
        "ray": {"workers": {"replicas": nodes or -(-count // gpus)}},
        "job": {"name": "run", "framework": framework, "version": version, "config": config},
    }
    return RunConfig(tree, default)


def _number(tree: Mapping[str, Any], path: Sequence[str]) -> int:
    """Return the positive number at a path; 0 if unset or known only to the job. Raises InputError if invalid."""
    try:
        value = merge.value_at(tree, path)
    except KeyError:
        return 0
    # Three question marks are OmegaConf's value that is still to be set.
    if value in (None, "???") or (isinstance(value, str) and "${" in value):
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        name = ".".join(path)
        raise InputError(f"{name} is {json.dumps(value)}, expected a number from 1", fix=f"set {name} to its number")
    return value


def _read(file: str) -> dict[str, Any]:
    tree = reader.load_values(file).plain()
    return dict(mapping(tree))


def _with_defaults(file: str, base: Mapping[str, Any], seen: Sequence[str] = ()) -> dict[str, Any]:
    """Return a configuration merged over the files in its key `defaults`, whose paths are relative to its folder."""
    tree = _read(file)
    named = tree.pop(_DEFAULTS, [])
    merged: dict[str, Any] = {}
    for name in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
        path = os.path.join(os.path.dirname(file), str(name))
        if os.path.realpath(path) in seen:
            raise InputError(f"{file}: its defaults lead back to {path}", fix="remove one of the two defaults")
        if os.path.isfile(path):
            below = _with_defaults(path, base, [*seen, os.path.realpath(path)])
        elif os.path.basename(path) == _DEFAULT:
            below = dict(base)
        else:
            fix = "give the file in the folder that it is from, such as examples/configs of NeMo RL"
            raise InputError(f"{file}: its defaults name {name}, and there is no {path}", fix=fix)
        merged = overlaid(merged, below)
    return overlaid(merged, tree)


def _overridden(config: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a configuration with one Hydra override applied: key=value, +key=value, ++key=value or ~key."""
    key, equals, value = text.partition("=")
    path = key.lstrip("+~").split(".")
    if not all(path) or (not equals and not key.startswith("~")):
        raise UsageError(f"{text!r} is no override", fix="write key=value, such as policy.train_micro_batch_size=1")
    if key.startswith("~"):
        return _removed(config, path)
    return merge.overlay(config, merge.nested(path, _value(text, value)))


def _value(text: str, value: str) -> Json:
    """Return an override's value: a number, a word, a list, a quoted text, or an empty text."""
    if not value:
        return ""
    if value.lstrip().startswith("{"):
        raise UsageError(f"{text!r}: a map cannot be read here", fix="write it into the file that --config names")
    read = reader.values_from_bytes(f"value: {value}".encode(), text).plain()
    return read["value"] if isinstance(read, dict) else value


def _removed(config: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    first, *rest = path
    if rest and isinstance(config.get(first), dict):
        return {**config, first: _removed(config[first], rest)}
    return {key: value for key, value in config.items() if key != first}
