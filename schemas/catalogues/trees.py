"""Configurations as the frameworks ship them: files merged on their defaults, and their paths."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from shapes import Shape


@functools.cache
def merged(file: Path) -> dict[str, Any]:
    """Return a configuration with its defaults merged and its interpolations as text; nothing for another file."""
    try:
        return load(file)
    except (OmegaConfBaseException, TypeError, yaml.YAMLError, FileNotFoundError):
        return {}


def load(file: Path, folder: Path | None = None) -> dict[str, Any]:
    """Merge a file on its defaults, as the framework does it: a section with _override_ replaces the one below."""
    config = dict(_parsed(file))
    defaults = config.pop("defaults", [])
    below: dict[str, Any] = {}
    for name in [defaults] if isinstance(defaults, str) else defaults:
        # Before v0.6.0 the path of a grandparent counts from the file itself; a test compares both with the framework.
        parents = (parent / str(name) for parent in (file.parent, folder or file.parent))
        below = _on(below, load(next(path for path in parents if path.is_file()), file.parent))
    return _on(below, config)


@functools.cache
def _parsed(file: Path) -> dict[str, Any]:
    """Return a file as OmegaConf reads it, in which 1e-8 is a number."""
    tree = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
    if not isinstance(tree, dict):
        raise TypeError(f"{file}: a map was expected")
    return {str(key): value for key, value in tree.items()}


def _on(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if isinstance(value, dict):
            over = {inner: each for inner, each in value.items() if inner != "_override_"}
            result[key] = _on({} if value.get("_override_") or not isinstance(under, dict) else under, over)
        else:
            result[key] = value
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
