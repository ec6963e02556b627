"""What one version of verl knows about its configuration, read from its source tree or its unpacked wheel."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from shapes import Annotations, Shape, Sources
from trees import below, leaves, values, widen

CLASSES = ("BaseConfig", "dataclass")
# The chart composes this one; another backend of the program is another file, or a choice that a file cannot make.
BASE = "ppo_trainer"
# Sections that reach a library or a user's own code as keyword arguments.
OPEN = (
    "custom_reward_function.reward_kwargs",
    "data.apply_chat_template_kwargs",
    "data.mm_processor_kwargs",
    "ray_kwargs.ray_init",
    "reward.custom_reward_function.reward_kwargs",
    "reward.reward_kwargs",
    "reward_model.reward_kwargs",
)
# Sections whose classes are built in every run of GRPO, and refuse other words than they know.
BUILT = tuple(f"actor_rollout_ref.{section}." for section in ("actor", "model", "rollout"))
# Keys with no type and null as default, which the code compares with numbers or gives to torch as one.
INTEGERS = (
    "actor_rollout_ref.ref.log_prob_micro_batch_size",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
    "data.gen_batch_size",
    "data.seed",
    "data.val_batch_size",
    "trainer.total_training_steps",
)
# Files that read the configuration, the section that the name `config` holds there, and the one class to look into.
FILES = (
    ("trainer/main_ppo*.py", "", ""),
    ("trainer/ppo/**/*.py", "", ""),
    ("experimental/agent_loop/*.py", "", ""),
    ("experimental/reward*/**/*.py", "", ""),
    ("workers/reward_manager/*.py", "", ""),
    ("workers/*_workers.py", "actor_rollout_ref", "ActorRolloutRefWorker"),
    ("utils/dataset/rl_dataset.py", "data", ""),
)
# Sections of other engines, which the class that is built for this one refuses.
_ELSEWHERE = {"megatron", "veomni", "torchtitan"}
# Code that takes more than the shipped files show: a text in place of a list; a key of the section of whichever mode.
_ONE_LOGGER = ("utils/tracking.py", "isinstance(default_backend, str)")
_OF_MODE = ("trainer/ppo/v1/trainer_base.py", '.get(self.trainer_mode, {}).get("parameter_sync_step"')
_METHODS = {"get", "pop", "items", "keys", "values", "copy", "update", "setdefault"}


def catalogue(tree: Path, version: str) -> dict[str, Any]:
    """Return the catalogue of a source tree, in the order in which it is written."""
    sources, base = Sources(tree), composed(tree / "verl/trainer/config")
    present = {path for path, _ in values(base)}
    keys = dict(dataclasses(sources, base, present))
    annotated = set(keys)
    for path in sorted(code_reads(tree, set(base))):
        keys.setdefault(path, Shape())
    widen(keys, base, annotated)
    taken_too(tree, keys)
    for path in keys.keys() & set(INTEGERS):
        keys[path].kinds = {"integer"}
    for path, shape in keys.items():
        if not path.startswith(BUILT):
            shape.kinds |= {"string"} if shape.words else set()
            shape.words = []
        if not shape.words:
            shape.kinds.add("null")  # A dataclass compares no value with its annotation.
    for path in (path for path, value in values(base) if value == {}):
        keys[path].is_open = keys[path].is_open or not keys[path].fields
    is_open = {path for path in OPEN if path.split(".")[0] in base} | {path for path in keys if keys[path].is_open}
    return {
        "version": version,
        "base": {path: value for path, value in leaves(base) if not path.endswith("_target_") and is_plain(value)},
        "keys": {
            path: keys[path].written()
            for path in sorted(keys)
            if not path.endswith("_target_") and (path in present or not below(path, is_open))
        },
        "open": sorted(path for path in is_open if not below(path, is_open)),
        # A reward model's rollout lacks its name as well, and is read only where there is such a model.
        "required": sorted(path for path, value in values(base) if value == "???" and not path.startswith("reward.")),
        "names": names(sources),
    }


def composed(folder: Path) -> dict[str, Any]:
    """Return what Hydra makes of the shipped files, interpolations as text."""
    with initialize_config_dir(config_dir=str(folder.resolve()), version_base=None):
        found = OmegaConf.to_container(compose(BASE), resolve=False)
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


def is_plain(value: object) -> bool:
    """Say whether the fast reader takes a value: not an interpolation with a list in it, which profilers have."""
    return not (isinstance(value, str) and "${" in value and "[" in value)


def dataclasses(sources: Sources, tree: dict[str, Any], present: set[str]) -> Iterator[tuple[str, Shape]]:
    """Yield what the classes say of which sections are built: each names its own under _target_."""
    annotations = Annotations(sources, CLASSES)
    for path, value in values(tree):
        section, _, key = path.rpartition(".")
        if key == "_target_":
            module, _, name = str(value).rpartition(".")
            shape = annotations.named(module, name)
            if shape.fields:
                yield section, Shape({"map"}, fields=shape.fields)
                yield from flattened(shape, f"{section}.", present)


def flattened(shape: Shape, path: str, present: set[str]) -> Iterator[tuple[str, Shape]]:
    """Yield each path below a shape; what is inside a section that the defaults lack may be anything."""
    for key, inner in shape.fields.items():
        if f"{path}{key}" in present or not inner.fields:
            yield f"{path}{key}", inner
            yield from flattened(inner, f"{path}{key}.", present)
        else:
            yield f"{path}{key}", Shape({"any"})


def code_reads(tree: Path, sections: set[str]) -> set[str]:
    """Return the paths below some sections that the code reads: config.data.get("seed")."""
    found = set()
    for pattern, section, only in FILES:
        for file in (tree / "verl").glob(pattern):
            for node in _nodes(ast.parse(file.read_text("utf-8")), only):
                steps = _steps(node)
                while steps and steps[0] in ("self", "config"):
                    steps = steps[1:]
                path = [section, *steps] if section and steps else steps
                if len(path) > 1 and path[0] in sections and not (_METHODS | _ELSEWHERE).intersection(path):
                    found.add(".".join(path))
    return found


def taken_too(tree: Path, keys: dict[str, Shape]) -> None:
    """Let fit what the code takes by a way that no chain of names shows."""
    if _says(tree, *_ONE_LOGGER):
        keys["trainer.logger"].kinds.add("string")
    modes = [path for path in keys if path.startswith("trainer.v1.") and path.rpartition(".")[2].endswith("_async")]
    for mode in modes if _says(tree, *_OF_MODE) else ():
        keys.setdefault(f"{mode}.parameter_sync_step", Shape({"integer"}))


def _says(tree: Path, file: str, words: str) -> bool:
    path = tree / "verl" / file
    return path.is_file() and words in path.read_text("utf-8")


def _nodes(tree: ast.AST, only: str) -> Iterator[ast.AST]:
    for part in ast.walk(tree):
        if not only or (isinstance(part, ast.ClassDef) and part.name == only):
            yield from ast.walk(part) if only else [part]


def _steps(node: ast.AST) -> list[str]:
    """Return self, config, data, seed of self.config.data.get("seed"); nothing for what is no such chain."""
    if isinstance(node, ast.Name):
        return [node.id] if node.id in ("self", "config") else []
    if isinstance(node, ast.Attribute):
        return _then(node.value, node.attr)
    if isinstance(node, ast.Subscript):
        return _then(node.value, getattr(node.slice, "value", None))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return _then(node.func.value, getattr(node.args[0], "value", None))
    return []


def _then(node: ast.AST, key: object) -> list[str]:
    steps = _steps(node)
    # self alone holds no configuration: self.config does.
    is_config = "config" in steps or key == "config"
    return [*steps, key] if steps and is_config and isinstance(key, str) and key.isidentifier() else []


def names(sources: Sources) -> dict[str, list[str]]:
    """Return the words that some keys take."""
    core = sources.module("verl.trainer.ppo.core_algos") or ast.Module([], [])
    loop = any((sources.tree / "verl/experimental/reward_loop/reward_manager").glob("*.py"))
    managers = "experimental/reward_loop/reward_manager" if loop else "workers/reward_manager"
    found = {
        "advantageEstimators": set(_enum(core, "AdvantageEstimator")) | set(_registered(core, "register_adv_est")),
        "policyLosses": set(_registered(core, "register_policy_loss")),
        "lossAggModes": set(_assigned(sources, "verl.workers.config.actor", "valid_loss_agg_modes")),
        "loggers": set(_assigned(sources, "verl.utils.tracking", "supported_backend")),
        "rollouts": set(_assigned(sources, "verl.workers.rollout.base", "_ROLLOUT_REGISTRY")),
        "rewardManagers": {
            word for name in ("register", "register_manager") for word in _below(sources.tree, managers, name)
        },
        "trainerModes": set(_below(sources.tree, "trainer/ppo/v1", "register_trainer")),
        "agentLoops": set(_below(sources.tree, "experimental/agent_loop", "register")),
        "checkpointEngines": set(_below(sources.tree, "checkpoint_engine", "CheckpointEngineRegistry.register")),
    }
    return {name: sorted(words) for name, words in found.items() if words}


def _below(tree: Path, folder: str, decorator: str) -> Iterator[str]:
    """Yield the texts with which the modules of a folder register their classes and functions."""
    for file in (tree / "verl" / folder).glob("*.py"):
        yield from _registered(ast.parse(file.read_text("utf-8")), decorator)


def _registered(tree: ast.AST, decorator: str) -> Iterator[str]:
    """Yield the texts with which a decorator is called."""
    for node in ast.walk(tree):
        for call in node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) == decorator:
                yield from (word.value for word in call.args if isinstance(word, ast.Constant))  # type: ignore[misc]


def _enum(tree: ast.AST, name: str) -> Iterator[str]:
    """Yield the values of an enumeration of texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            lines = (line.value for line in node.body if isinstance(line, ast.Assign))
            yield from (value.value for value in lines if isinstance(value, ast.Constant))  # type: ignore[misc]


def _assigned(sources: Sources, module: str, name: str) -> Iterator[str]:
    """Yield the texts of a list, or the keys of a dictionary with / between their parts."""
    for node in ast.walk(sources.module(module) or ast.Module([], [])):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            items = node.value.keys if isinstance(node.value, ast.Dict) else getattr(node.value, "elts", [])
            for item in items:
                parts = item.elts if isinstance(item, ast.Tuple) else [item]
                yield "/".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
