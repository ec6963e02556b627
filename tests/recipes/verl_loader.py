"""Compose a configuration as verl's entry point does, and let verl itself judge it: no GPU, no torch, no Ray.

usage: verl_loader.py SOURCES CONFIG_DIR OUTPUT_DIR
SOURCES is a checkout or an unpacked wheel, CONFIG_DIR has the file config.yaml, OUTPUT_DIR takes what Hydra writes.
Hydra, OmegaConf, verl's configuration tree, its dataclasses and validate_config are the real ones; whatever else verl
imports is replaced by something that can be imported, subclassed and called, and does nothing.
Prints JSON: the composed configuration and the paths in it that verl's defaults do not have.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import re
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

REAL = {"verl", "hydra", "omegaconf", "yaml", "packaging", "typing_extensions", "antlr4"}
BUILT_BY_WORKERS = ("actor_rollout_ref.actor", "actor_rollout_ref.rollout")


class Nothing(type):
    """A class that has every attribute, each of them a class of this kind."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})

    def __call__(cls, *given: Any, **_: Any) -> Any:
        # As a decorator it gives back what it decorates.
        return given[0] if len(given) == 1 and callable(given[0]) else cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __bool__(cls) -> bool:
        return False

    def __getitem__(cls, _: Any) -> Any:
        return cls

    __or__ = __ror__ = __getitem__


class Hollow(types.ModuleType):
    """A module of which everything can be imported."""

    __path__: Sequence[str] = ()
    __version__ = "2.8.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a hollow module for each name that verl's sources import from elsewhere."""

    def __init__(self, sources: Path) -> None:
        pattern = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)
        texts = (file.read_text("utf-8", "replace") for file in (sources / "verl").rglob("*.py"))
        self.names = {name for text in texts for name in pattern.findall(text)} - sys.stdlib_module_names - REAL

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        known = fullname.partition(".")[0] in self.names
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Hollow(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def leaves(tree: Any, path: str = "") -> Iterator[str]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path


def judge(config: Any) -> None:
    """Print what the configuration comes to; raise what verl raises."""
    from hydra import compose
    from omegaconf import OmegaConf
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    resolved = OmegaConf.to_container(config, resolve=True)
    OmegaConf.resolve(config)
    reference = config.actor_rollout_ref.actor.use_kl_loss or config.algorithm.use_kl_in_reward
    validate_config(config=config, use_reference_policy=reference, use_critic=config.algorithm.adv_estimator == "gae")
    for path in BUILT_BY_WORKERS:
        omega_conf_to_dataclass(OmegaConf.select(config, path))
    known = list(leaves(OmegaConf.to_container(compose("ppo_trainer"), resolve=False)))
    unknown = [path for path in leaves(resolved) if not any((path + ".").startswith(one + ".") for one in known)]
    print(json.dumps({"config": resolved, "unknown": unknown}))


def main(sources: str, directory: str, output: str) -> None:
    tree = Path(sources).resolve()
    sys.path.insert(0, str(tree))
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Finder(tree))
    import hydra

    # The words of the command that the chart renders; only Hydra's output goes elsewhere.
    sys.argv = ["main_ppo", "--config-dir", directory, "--config-name", "config", f"hydra.run.dir={output}"]
    hydra.main(config_path=str(tree / "verl/trainer/config"), config_name="ppo_trainer", version_base=None)(judge)()


if __name__ == "__main__":
    main(*sys.argv[1:])
