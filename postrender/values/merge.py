"""Merge values as Helm merges `-f` files: plain trees, and trees that record each value's file and line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from postrender import paths, spelling
from postrender.errors import InputError, Location, UnreadableError
from postrender.types import Json, Path
from postrender.yaml.reader import Node, load_values

# Below these paths, null is a value for the framework; everywhere else it deletes the entry.
_NULL_IS_A_VALUE = (("job", "config"), ("job", "configFor"))


class ListPositionError(KeyError):
    """A path has a key that is not a number where a list position is required."""


def overlay(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two plain trees: maps are merged key by key, any other value is replaced, null is kept."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = overlay(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def nested(path: Sequence[str], value: Json) -> dict[str, Any]:
    """Return a tree that contains only a value at a path."""
    for key in reversed(path[1:]):
        value = {key: value}
    return {path[0]: value}


def without_nulls(value: Json, path: tuple[str, ...] = ()) -> Json:
    """Return a plain tree without the entries that null deletes; below job.config, null is an ordinary value."""
    if path in _NULL_IS_A_VALUE or not isinstance(value, dict):
        return value
    return {key: without_nulls(item, (*path, key)) for key, item in value.items() if item is not None}


def profile_name(tree: Mapping[str, Any]) -> str:
    """Return a plain tree's accelerator.name, or an empty string."""
    accelerator = tree.get("accelerator")
    return str(accelerator.get("name") or "") if isinstance(accelerator, dict) else ""


def _machine(tree: Mapping[str, Any]) -> tuple[str, str]:
    """Return a profile's name and machine type; different clouds' machines with one GPU share the name."""
    return profile_name(tree), str(tree["accelerator"].get("machineType") or "")


def value_at(tree: Json, path: Sequence[str]) -> Json:
    """Return the value at a path of keys and list positions in a plain tree; raise KeyError if there is none."""
    for part in path:
        if isinstance(tree, dict):
            tree = tree[part]
        elif isinstance(tree, list):
            tree = _item(tree, part)
        else:
            raise KeyError(part)
    return tree


def _item(items: list[Json], part: str) -> Json:
    try:
        position = int(part)
    except ValueError as error:
        raise ListPositionError(part) from error
    if not 0 <= position < len(items):
        raise KeyError(part)
    return items[position]


def overlay_nodes(under: Node, over: Node) -> Node:
    """Merge two trees as `overlay` does; a merged map is located in the later file, which is the one the user edits."""
    if not isinstance(under.value, dict) or not isinstance(over.value, dict):
        return over
    entries = dict(under.value)
    for key, node in over.value.items():
        entries[key] = overlay_nodes(entries[key], node) if key in entries else node
    return Node(entries, over.at, over.key_at, over.spelled)


class Values:
    """The merged values of several files with their locations; later files take precedence.

    `root` is the merged tree, `files` are the names as the user gave them, `documents` has each file's content.
    """

    def __init__(self, root: Node, files: Sequence[str], documents: Sequence[Node] = ()) -> None:
        self.root = root
        self.files = list(files)
        self.documents = list(documents)

    def node(self, path: Path) -> Node | None:
        """Return the node at a path of keys and list positions, or None."""
        node: Node | None = self.root
        for part in path:
            value = node.value if node else None
            if isinstance(value, dict):
                node = value.get(str(part))
            elif isinstance(value, list) and str(part).isdecimal() and int(part) < len(value):
                node = value[int(part)]
            else:
                return None
        return node

    def at(self, path: Path) -> Location:
        """Return the location of the key at a path, or of the nearest map above it."""
        while path:
            node = self.node(path)
            if node:
                return node.key_at
            path = path[:-1]
        return self.root.at

    def get(self, path: str, default: Json = None) -> Json:
        """Return the plain value at a dotted path, such as `ray.workers.replicas`, or the default."""
        node = self.node(tuple(path.split(".")))
        return node.plain() if node else default

    def as_helm_merges(self) -> dict[str, Any]:
        """Return the merged tree with every null kept, as Helm passes the tree to the chart."""
        tree: dict[str, Any] = self.root.plain()
        return tree

    def effective(self) -> dict[str, Any]:
        """Return the merged tree without the entries that null deletes; below job.config, null is an ordinary value."""
        tree: dict[str, Any] = without_nulls(self.as_helm_merges())
        return tree


@cache
def defaults() -> Mapping[str, Any]:
    """Return the charts' default values, which Helm merges with the files; the grpo-job chart has all sections."""
    tree: Mapping[str, Any] = load_values(paths.defaults("grpo-job")).plain()
    return tree


def over_defaults(values: Values) -> dict[str, Any]:
    """Return values merged over the charts' defaults, without the entries that null deletes."""
    tree: dict[str, Any] = without_nulls(overlay(defaults(), values.as_helm_merges()))
    return tree


def load(files: Sequence[str]) -> Values:
    """Read and merge values files in order; raise InputError or UnreadableError for the first faulty file."""
    return merge([_read(file) for file in files], files)


def _read(file: str) -> Node:
    """Read a values file; if it is missing, suggest a similar file in its folder, or how to write one."""
    try:
        return load_values(file)
    except UnreadableError as error:
        if not isinstance(error.__cause__, FileNotFoundError) or "://" in file:
            raise
        near = _near(file)
        fix = f"did you mean {near}?" if near else f"{error.fix}, or write a site file with grpo init"
        raise UnreadableError(error.message, at=error.at, fix=fix) from error


def _near(file: str) -> str:
    """Return the file whose name is most similar, with a missing file's folder and extension, or an empty text."""
    folder, name = os.path.split(file)
    stem, ending = os.path.splitext(name)
    beside = os.listdir(folder or os.curdir) if os.path.isdir(folder or os.curdir) else []
    names = {os.path.splitext(each)[0]: each for each in beside if each.endswith(ending)}
    return next((os.path.join(folder, names[each]) for each in spelling.near(stem, names)), "")


def merge(roots: Sequence[Node], files: Sequence[str]) -> Values:
    """Merge several files' documents; `roots` and `files` have the same length."""
    merged = roots[0] if roots else Node({}, Location(""))
    for root in roots[1:]:
        merged = overlay_nodes(merged, root)
    _refuse_two_profiles([Values(root, [file]) for root, file in zip(roots, files, strict=True)])
    return Values(merged, files, roots)


def _refuse_two_profiles(each: Sequence[Values]) -> None:
    """Raise InputError if two files name different accelerators, because the merge would mix two machines."""
    named = [one for one in each if profile_name(one.as_helm_merges())]
    for other in named[1:]:
        (first, here), (name, there) = (_machine(one.as_helm_merges()) for one in (named[0], other))
        if first == name and here and there and here != there:
            first, name = f"{first} ({here})", f"{name} ({there})"
        if first != name:
            raise InputError(
                f"a second accelerator profile: {named[0].files[0]} is for {first}, this file for {name}",
                at=other.at(("accelerator", "name")),
                fix="give one profile only; a file that changes a part of it leaves out accelerator.name",
            )
