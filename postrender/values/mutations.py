"""Change one value at a time in order to find out what it affects."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import getitem
from typing import Any

from postrender.errors import InputError
from postrender.types import Json, Path
from postrender.yaml.reader import Node

# Tried after values like the present one: a template may expect a number in a text, or a map with a name.
_TEXTS = ("x", "1", "true", "1Gi", "/x")
_ENTRIES: tuple[Json, ...] = ({"x": "y"}, {"x": {"name": "y"}})
_ITEMS: tuple[Json, ...] = (["x"], [{"name": "x"}])


def leaves(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every scalar, and every empty map or list, with its path."""
    if isinstance(node.value, dict) and node.value:
        for key, child in node.value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(node.value, list) and node.value:
        for position, child in enumerate(node.value):
            yield from leaves(child, (*path, position))
    elif path:
        yield path, node


def candidates(value: Json) -> list[Json]:
    """Return alternative values, those most likely to be accepted first."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1, value - 1, value * 2]
    if isinstance(value, str):
        own = [value + "1" if value[-1:].isdigit() else value + "x"] if value else []
        return [*own, *(text for text in _TEXTS if text != value)]
    if isinstance(value, dict):
        return list(_ENTRIES)
    return list(_ITEMS) if isinstance(value, list) else ["x", 1, True, *_ENTRIES, *_ITEMS]


def changed(tree: Mapping[str, Any], path: Path, value: Json) -> dict[str, Any]:
    """Return values that change one leaf; a changed list is complete, because Helm replaces lists."""
    keys = next((path[:depth] for depth, part in enumerate(path) if isinstance(part, int)), path)
    if keys != path:
        whole = copy.deepcopy(at(tree, keys))
        inside = whole
        for part in path[len(keys) : -1]:
            inside = inside[part]
        inside[path[-1]] = value
        value = whole
    for key in reversed(keys):
        value = {key: value}
    if not isinstance(value, dict):
        raise InputError("expected a path of at least one key")
    return value


def at(tree: Json, path: Path) -> Json:
    """Return the value at a path; raise LookupError or TypeError if there is none."""
    return reduce(getitem, path, tree)


def dotted(path: Path) -> str:
    """Return a path as text: `ray.workers.replicas`, with list positions in brackets."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
