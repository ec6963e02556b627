"""Configurations as the frameworks ship them: files merged on their defaults, and their paths."""

from __future__ import annotations

import copy
import functools
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from shapes import Shape


@functools.cache
def merged(file: Path) -> dict[str, Any]:
    """Return a configuration with its defaults merged and its interpolations as text; nothing for another file."""
    try:
        tree = OmegaConf.to_container(load(file), resolve=False)
    except (OmegaConfBaseException, AssertionError, yaml.YAMLError, FileNotFoundError):
        return {}
    return {str(key): value for key, value in tree.items()} if isinstance(tree, dict) else {}


@functools.cache
def _parsed(file: Path) -> DictConfig:
    config = OmegaConf.load(file)
    assert isinstance(config, DictConfig)
    return config


def load(file: Path, folder: Path | None = None) -> DictConfig:
    """Merge a file on its defaults, as the framework does it: a section with _override_ replaces the one below."""
    config = copy.deepcopy(_parsed(file))
    defaults = config.pop("defaults", [])
    below = OmegaConf.create({})
    for name in [defaults] if isinstance(defaults, str) else defaults:
        # Before v0.6.0 the path of a grandparent counts from the file itself; a test compares both with the framework.
        parents = (parent / str(name) for parent in (file.parent, folder or file.parent))
        below = _on(below, load(next(path for path in parents if path.is_file()), file.parent))
    return _on(below, config)


def _on(below: DictConfig, above: DictConfig) -> DictConfig:
    for key in list(above):
        section = OmegaConf.select(above, str(key)) if OmegaConf.is_dict(above._get_node(key)) else None
        if section is not None and section.pop("_override_", False):
            below.pop(key, None)
    result = OmegaConf.merge(below, above)
    assert isinstance(result, DictConfig)
    return result


def values(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each path of a tree and its value; the items of a list have the path of the list."""
    for each in tree if isinstance(tree, list) else [tree]:
        for key, value in each.items() if isinstance(each, dict) else ():
            yield f"{path}{key}", value
            yield from values(value, f"{path}{key}.")


def leaves(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each path of a tree that no other one goes through, and its value; a list is one value."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def widen(keys: dict[str, Shape], tree: dict[str, Any], annotated: Collection[str]) -> None:
    """Let fit what a shipped configuration says, although the annotation of the key may not.

    Of a key without an annotation not much is known: a text may be anything, a number any number, and null fits.
    """
    for path, value in values(tree):
        shape = keys.setdefault(path, Shape())
        kind = kind_of(value)
        if path not in annotated:
            kind = {"string": "any", "integer": "number"}.get(kind, kind)
            shape.kinds |= {kind, "null"} - {""}
        elif kind and not fits(kind, shape):
            shape.kinds.add(kind)


def kind_of(value: Any) -> str:
    """Return the kind of a value of a file; nothing for a text that stands for another value."""
    if isinstance(value, str):
        return "" if "${" in value else "string"
    kinds = {bool: "boolean", int: "integer", float: "number", list: "list", dict: "map", type(None): "null"}
    return kinds[type(value)]


def fits(kind: str, shape: Shape) -> bool:
    """Say whether a shape has room for a kind."""
    has_words = kind == "string" and bool(shape.words)
    return bool(shape.kinds & {kind, "any"}) or has_words or (kind == "integer" and "number" in shape.kinds)


def below(path: str, sections: Iterable[str]) -> bool:
    """Say whether a path is inside one of some sections."""
    return not set(parents(path)).isdisjoint(sections)


def parents(path: str) -> list[str]:
    """Return the sections that a path is in."""
    parts = path.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]
