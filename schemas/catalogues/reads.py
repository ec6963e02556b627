"""Which keys the code of a framework reads, where the path of a key can be told without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Steps = tuple[str, ...]


def reads(file: Path, roots: Mapping[str, str], only: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the dotted path of each key that a file reads, and whether its absence would be an error.

    `roots` says which names hold which section: {"data_config": "data", "master_config": ""}. `only` names the one
    class to look into.
    """
    tree = ast.parse(file.read_text("utf-8"))
    module = {name: tuple(path.split(".")) if path else () for name, path in roots.items()}
    parts = (
        [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == only] if only else [tree]
    )
    for function in (node for part in parts for node in ast.walk(part)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(function, dict(module))


def _function(function: ast.AST, known: dict[str, Steps]) -> Iterator[tuple[str, bool]]:
    # Names that a function gives to sections: dtensor_cfg = config["dtensor_cfg"]. A name with two meanings has none.
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, path = node.targets[0].id, _path(node.value, known)
            if path is not None and known.setdefault(name, path) != path:
                del known[name]
    for node in ast.walk(function):
        yield from _chosen(node, known)
        found = _read(node, known)
        if found and found[0]:
            yield ".".join(found[0]), found[1]


def _chosen(node: ast.AST, known: Mapping[str, Steps]) -> Iterator[tuple[str, bool]]:
    """Yield the keys of a call that takes a section and a list of keys: get_extra_kwargs(data_config, ["split"])."""
    if isinstance(node, ast.Call) and len(node.args) == 2 and isinstance(node.args[1], ast.List):
        for key in node.args[1].elts:
            if path := _below(node.args[0], key, known):
                yield ".".join(path), False


def _read(node: ast.AST, known: Mapping[str, Steps]) -> tuple[Steps, bool] | None:
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        path = _below(node.comparators[0], node.left, known)
        return (path, False) if path else None
    if isinstance(node, ast.Subscript | ast.Call):
        path = _path(node, known)
        return (path, isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)) if path else None
    return None


def _path(node: ast.AST, known: Mapping[str, Steps]) -> Steps | None:
    """Return the path that an expression reads: x["a"]["b"], x.get("a", {}), or a name that stands for one."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        return known.get(f"{node.value.id}.{node.attr}") if isinstance(node.value, ast.Name) else None
    if isinstance(node, ast.Subscript):
        return _below(node.value, node.slice, known)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
        return _below(node.func.value, node.args[0], known) if node.args else None
    return None


def _below(section: ast.AST, key: ast.AST, known: Mapping[str, Steps]) -> Steps | None:
    """Return the path of a key, where the section is known and the key is a word."""
    path, word = _path(section, known), key.value if isinstance(key, ast.Constant) else None
    return (*path, word) if path is not None and isinstance(word, str) and word.isidentifier() else None
