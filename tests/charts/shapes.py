"""Walk values and their schema, for the contract tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = dict[str, Any]
Path_ = tuple[str, ...]


def load_schema(chart: Path) -> Schema:
    """Read a chart's generated values.schema.json."""
    schema: Schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    return schema


def resolve(schema: Schema, node: Any) -> Schema:
    """Follow a local $ref and step over the null alternative of a map entry."""
    while isinstance(node, dict):
        if "$ref" in node:
            target: Any = schema
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        elif node.get("if") == {"type": "null"}:
            node = node["else"]
        else:
            return node
    return {}


def is_open(node: Schema) -> bool:
    """Say whether anything may stand below this node (job.config, Kubernetes fields)."""
    return node.get("type") in ("object", ["object", "null"]) and node.get("additionalProperties", True) is True


def child(schema: Schema, node: Schema, key: str) -> Schema:
    """Return the schema of one key of an object."""
    if key in node.get("properties", {}):
        return resolve(schema, node["properties"][key])
    for entry in node.get("patternProperties", {}).values():
        return resolve(schema, entry)
    return resolve(schema, node.get("additionalProperties"))


def leaves(
    schema: Schema, values: Mapping[str, Any], node: Schema | None = None, path: Path_ = ()
) -> Iterator[tuple[Path_, Schema, Any]]:
    """Yield path, schema and value of each leaf that the schema judges; open maps are leaves."""
    node = resolve(schema, node or schema)
    for key, value in values.items():
        inner = child(schema, node, key)
        if isinstance(value, Mapping) and value and not is_open(inner):
            yield from leaves(schema, value, inner, (*path, key))
        else:
            yield (*path, key), inner, value


def objects(schema: Schema, values: Mapping[str, Any], node: Schema | None = None, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of each object whose keys the schema names one by one."""
    node = resolve(schema, node or schema)
    if "properties" in node and node.get("additionalProperties") is False:
        yield path
    for key, value in values.items():
        if isinstance(value, Mapping):
            inner = child(schema, node, key)
            if inner and not is_open(inner):
                yield from objects(schema, value, inner, (*path, key))


def nested(path: Path_, value: Any) -> dict[str, Any]:
    """Return {a: {b: value}} for the path (a, b)."""
    for key in reversed(path):
        value = {key: value}
    result: dict[str, Any] = value
    return result


def lookup(values: Any, path: Path_) -> Any:
    """Return what stands at a path."""
    for key in path:
        values = values[key]
    return values


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one tree over another as Helm merges values files: the tests' own copy, to test no function by itself."""
    merged = dict(base)
    for key, value in over.items():
        before = merged.get(key)
        merged[key] = merge(before, value) if isinstance(value, Mapping) and isinstance(before, Mapping) else value
    return merged
