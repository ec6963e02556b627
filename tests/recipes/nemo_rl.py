"""Load configurations with the real code of a NeMo RL source tree, as its GRPO script does. A program of its own.

nemo_rl.py TREE < {"name": "path of a YAML file", …} prints {"name": {"config": …, "base": …, "errors": […]}, …}:
the resolved configuration, the resolved file that its `defaults` names, and what the tree's MasterConfig refuses
(pydantic, or a TypedDict before v0.7.0).

Real are the tree, omegaconf and pydantic. Whatever else the tree imports and this machine lacks (torch, ray, hydra …)
is a stand-in.
"""

from __future__ import annotations

import abc
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic
import typing_extensions
import yaml
from omegaconf import OmegaConf

SCHEMA_WORDS = ("TypedDict", "NotRequired", "Required")


class Standing(abc.ABCMeta):
    """Metaclass of stand-ins: base class, decorator, annotation or value, whatever a module does with a name."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        # @decorator gives back what it decorates, and @decorator(option) is a decorator again.
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else cls

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __or__(cls, _: Any) -> Any:
        return typing.Any

    __ror__ = __or__


def stand_in(name: str) -> Any:
    """Return something that can be imported under a name."""
    return Standing(name, (), {"__init_subclass__": classmethod(lambda _, **__: None)})


class Module(types.ModuleType):
    """A module that has every name."""

    __path__: typing.ClassVar[list[str]] = []
    __version__ = "5.5.0"  # v0.7.0 refuses to be imported beside a transformers from 5.12 on

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, stand_in(name))
        return self.__dict__[name]


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last: finds what nobody else finds, but nothing of Python's own and nothing of the tree."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname.split(".", maxsplit=1)[0] in {*sys.stdlib_module_names, "nemo_rl"}:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Module:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: its names come when they are asked for."""


def enter(tree: Path) -> None:
    """Make the tree importable, and leave nothing behind in it."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(tree))
    os.environ.pop("NRL_CONTAINER", None)  # would compare the tree with the image's fingerprint
    if sys.version_info < (3, 12):
        # pydantic reads no TypedDict of an older Python's typing.
        for word in SCHEMA_WORDS:
            setattr(typing, word, getattr(typing_extensions, word))
    sys.meta_path.append(Finder())


def resolved(path: Path) -> Any:
    """Return a configuration as the script holds it: inherited, merged, every ${…} resolved."""
    import nemo_rl.utils.config as upstream

    if hasattr(upstream, "register_omegaconf_resolvers"):  # from v0.6.0; before, each script registers mul
        upstream.register_omegaconf_resolvers()
    else:
        OmegaConf.register_new_resolver("mul", lambda a, b: a * b, replace=True)
    return OmegaConf.to_container(upstream.load_config(path), resolve=True)


def refusals(config: Any) -> list[str]:
    """Return what the tree's MasterConfig has against a configuration."""
    from nemo_rl.algorithms.grpo import MasterConfig

    try:
        pydantic.TypeAdapter(MasterConfig).validate_python(config)
    except pydantic.ValidationError as error:
        return [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return []


def load(path: Path) -> dict[str, Any]:
    """Return the resolved configuration, its base and its errors."""
    try:
        config = resolved(path)
        base = resolved(Path(yaml.safe_load(path.read_text("utf-8"))["defaults"]))
    except Exception as error:
        return {"config": None, "base": None, "errors": [f"{type(error).__name__}: {error}"]}
    return {"config": config, "base": base, "errors": refusals(config)}


if __name__ == "__main__":
    enter(Path(sys.argv[1]))
    # What the tree prints on import must not stand in the JSON.
    output, sys.stdout = sys.stdout, sys.stderr
    json.dump({name: load(Path(path)) for name, path in json.load(sys.stdin).items()}, output)
