"""Where generated files live, and how they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def reference_name(ref: str) -> str:
    """Return NAME of `…#/$defs/NAME`."""
    return ref.rsplit("/", 1)[-1]


def compact(value: object) -> str:
    """Return JSON on one line, in the order of the value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def lines_json(value: Mapping[str, Any]) -> str:
    """Return JSON with one entry a line down to the second level: small, and a diff names what changed."""
    parts = []
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            entries = ",\n".join(f"  {compact(k)}:{compact(v)}" for k, v in inner.items())
            parts.append(f" {compact(key)}:{{\n{entries}\n }}")
        else:
            parts.append(f" {compact(key)}:{compact(inner)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def references(node: object) -> Iterator[str]:
    """Yield the name of each definition that a schema refers to."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("$defs/")[2]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def closure(definition: Callable[[str], Any], roots: Iterable[str]) -> dict[str, Any]:
    """Return the definitions that the roots need, themselves included, sorted by name.

    Raises KeyError for a reference to a definition that does not exist.
    """
    todo: list[str] = list(roots)
    found: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = definition(name)
            todo.extend(references(found[name]))
    return {name: found[name] for name in sorted(found)}
