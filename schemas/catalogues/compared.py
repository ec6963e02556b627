"""Which words a class compares its texts with before it accepts them, read from its __post_init__."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

Words = Mapping[str, list[str | None]]


def words(node: ast.ClassDef, module: ast.Module) -> dict[str, list[str | None]]:
    """Return the words of each field that the class refuses to be built without."""
    methods = (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__post_init__")
    body = [line for method in methods for line in method.body]
    found = _compared(body, {**_lists(module.body), **_lists(body)})
    # What is assigned may be another value than the configuration's.
    replaced = {_field(target) for line in body for part in ast.walk(line) for target in getattr(part, "targets", ())}
    return {key: texts for key, texts in found if key not in replaced}


def _lists(body: list[ast.stmt]) -> dict[str, list[str | None]]:
    """Return the lists of texts that are assigned to a name."""
    assigned = (line for line in body if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name))
    return {line.targets[0].id: found for line in assigned if (found := _texts(line.value, {}))}  # type: ignore[attr-defined]


def _texts(node: ast.expr, known: Words) -> list[str | None]:
    if isinstance(node, ast.Name):
        return known.get(node.id, [])
    items = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else []
    found = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return [*found] if found and len(found) == len(items) else []


def _compared(body: list[ast.stmt], known: Words) -> Iterator[tuple[str, list[str | None]]]:
    for line in body:
        if isinstance(line, ast.Assert):
            yield from _membership(line.test, ast.In, known)
        elif isinstance(line, ast.If) and any(isinstance(part, ast.Return) for part in line.body):
            # What follows holds for some values of other fields only.
            return
        elif isinstance(line, ast.If) and isinstance(line.body[0], ast.Raise):
            yield from _membership(line.test, ast.NotIn, known)
        elif isinstance(line, ast.If) and (field := _given(line.test)):
            yield from ((key, [*found, None]) for key, found in _compared(line.body, known) if key == field)


def _membership(test: ast.expr, operator: type[ast.cmpop], known: Words) -> Iterator[tuple[str, list[str | None]]]:
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], operator):
        field, found = _field(test.left), _texts(test.comparators[0], known)
        if field and found:
            yield field, found


def _given(test: ast.expr) -> str:
    """Return a of `self.a is not None`."""
    return _field(test.left) if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) else ""


def _field(node: ast.expr) -> str:
    of_self = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if of_self else ""  # type: ignore[attr-defined]
