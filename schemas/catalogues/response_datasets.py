"""What the data sets of one version of NeMo RL read from their entry of the configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from shapes import Sources

MODULE = "nemo_rl.data.datasets.response_datasets"
_SIZE = "split_validation_size"


def datasets(sources: Sources, registry: Iterator[tuple[str, ast.expr]]) -> dict[str, dict[str, Any]]:
    """Return the arguments of each data set, the ones that it needs, and its own share for validation."""
    found = dict(_classes(sources, registry))
    return dict(sorted((found or dict(_branches(sources))).items()))


def _classes(sources: Sources, registry: Iterator[tuple[str, ast.expr]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each class of the registry takes: from v0.6.0 on, an entry becomes its arguments."""
    for name, value in registry:
        given = [word.arg for word in value.keywords] if isinstance(value, ast.Call) else []
        named = value.args[0] if isinstance(value, ast.Call) else value
        found = sources.find(MODULE, named.id) if isinstance(named, ast.Name) else None
        for node in found[1].body if found and isinstance(found[1], ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                yield name, _arguments(node, given)


def _arguments(node: ast.FunctionDef, given: list[str | None]) -> dict[str, Any]:
    names = [argument.arg for argument in node.args.args[1:]]
    defaults = dict(zip(reversed(names), reversed(node.args.defaults), strict=False))
    size = defaults.get(_SIZE)
    share = size.value if isinstance(size, ast.Constant) else 0
    return {
        "arguments": [name for name in names if name not in given],
        "required": [name for name in names if name not in defaults],
        **({"validation": share} if share else {}),
    }


def _branches(sources: Sources) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each branch of the function that loads data sets reads: before v0.6.0 there is no registry."""
    for node in ast.walk(sources.module(MODULE) or ast.Module([], [])):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq):
            word = node.test.comparators[0]
            if isinstance(word, ast.Constant) and getattr(node.test.left, "id", "") == "dataset_name":
                reads = list(_reads(ast.Module(node.body, [])))
                required = [key for key, must in reads if must]
                yield str(word.value), {"arguments": list(dict.fromkeys(key for key, _ in reads)), "required": required}


def _reads(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield each key that a branch reads, and whether it must be there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield str(node.slice.value), True
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
            yield node.args[0].value, False  # type: ignore[attr-defined]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "get_extra_kwargs":
            yield from ((item.value, False) for item in node.args[1].elts)  # type: ignore[attr-defined]
