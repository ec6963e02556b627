"""Look up a value's meaning in the schema of values files, and explain why an answer does not fit."""

from __future__ import annotations

from functools import cache
from typing import Any

from grpo.lint import placeholders
from postrender import paths, secrets
from postrender.schema import Schema, SchemaError, matches, read_schema
from postrender.types import Path
from postrender.values import quantity


def _schema() -> Schema:
    return read_schema(paths.editors_schema())


@cache
def _source() -> dict[str, Any]:
    return _schema().source


def meaning(path: Path) -> str:
    """Return a value's description, without its source; an empty text for a key that the schema leaves open."""
    return str(_node(path).get("description", "")).partition(" Source: ")[0]


def _node(path: Path) -> dict[str, Any]:
    """Return a value's schema; an empty one for a key that the schema leaves open."""
    node: dict[str, Any] | None = _source()
    for name in path:
        node = _below(node, str(name)) if node else None
    return node or {}


def _below(node: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return a key's schema below a node; the key's own description overrides that of a shared definition."""
    node = _resolved(node)
    if name in node.get("properties", {}):
        found = node["properties"][name]
    else:
        kinds = node.get("patternProperties", {}).items()
        entries = [each for pattern, each in kinds if matches(pattern, name)]
        found = next(iter(entries), None)
    return found if isinstance(found, dict) else None


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node merged with its referenced definition and with its `else`, which applies if a value is set."""
    while "$ref" in node or "else" in node:
        rest = {key: value for key, value in node.items() if key not in ("$ref", "if", "then", "else")}
        target = _source()["definitions"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node["else"]
        node = {**target, **rest}
    return node


def refusal(path: Path, value: str) -> str:
    """Return why a path cannot have a value, or an empty text; a secret is not repeated."""
    if shape := secrets.shape_of(value) or ("wandb" if secrets.is_bare_key(value) else None):
        kind = secrets.title_of(shape)
        return f"this looks like a secret of the kind {kind}: only names belong here; revoke it if others saw it"
    if placeholders.is_placeholder(value):
        return f"{value} is the placeholder of the example site file: give the name that is yours"
    tree: Any = value
    for name in reversed(path):
        tree = {name: tree}
    problems = _schema().problems(tree)
    return f"{value!r} {_expected(problems[0], path, value)}. {meaning(path)}" if problems else ""


def _expected(problem: SchemaError, path: Path, value: str) -> str:
    if problem.keyword == "maxLength":
        return f"is longer than {problem.expected} characters"
    if problem.keyword == "minLength":
        return f"is shorter than {problem.expected} characters"
    near = quantity.near(value)
    if problem.keyword == "pattern" and near and matches(problem.expected, near):
        return f"does not fit: did you mean {near}?"
    examples = _resolved(_node(path)).get("examples")
    return f"does not fit: write for instance {examples[0]}" if examples else "does not fit"
