"""Compare the rendered objects of several stacks field by field, layer by layer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from postrender.types import Json

_WIDTH = 100
# Compare lists of named entries by name: one more volume must not make all later ones differ.
_NAMES = ("name", "mountPath", "key", "topologyKey")


@dataclass(frozen=True)
class Difference:
    """One field that differs: `values` by side, without the sides that do not have the field."""

    object: str
    path: str
    values: Mapping[str, Any]


def compare(sides: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Difference]:
    """Return the differences between the objects of one layer; `sides` maps a name to its rendered documents."""
    flat = {side: dict(_fields(documents)) for side, documents in sides.items()}
    keys = dict.fromkeys(key for fields in flat.values() for key in fields)
    found = []
    for key in keys:
        values = {side: fields[key] for side, fields in flat.items() if key in fields}
        texts = {json.dumps(value, sort_keys=True) for value in values.values()}
        if len(values) < len(flat) or len(texts) > 1:
            found.append(Difference(*key, values))
    return found


def _fields(documents: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], Any]]:
    for document in documents:
        name = f"{document.get('kind', '?')}/{document.get('metadata', {}).get('name', '?')}"
        for path, value in _leaves(document, ""):
            yield (name, path), value


def _leaves(value: Json, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every scalar, and every empty map or list, with its path."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            part = f'["{key}"]' if "." in key or "/" in key else f".{key}" if path else key
            yield from _leaves(child, path + part)
    elif isinstance(value, list) and value:
        for part, child in _entries(value):
            yield from _leaves(child, f"{path}[{part}]")
    else:
        inner = _json_map(value)
        if inner:
            yield from _leaves(inner, f"{path}(JSON)")
        else:
            yield path, value


def _json_map(value: Json) -> dict[str, Any]:
    """Return the map in a JSON text, so that its fields are compared instead of its characters."""
    if not isinstance(value, str) or not value.startswith("{"):
        return {}
    try:
        tree = json.loads(value)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _entries(items: list[Any]) -> Iterator[tuple[str, Any]]:
    for key in _NAMES:
        names = [item.get(key) for item in items if isinstance(item, dict)]
        if len(names) == len(items) and all(isinstance(name, str) for name in names) and len({*names}) == len(names):
            yield from zip((f"{key}={name}" for name in names), items, strict=True)
            return
    yield from ((str(at), item) for at, item in enumerate(items))


def as_json(layers: Mapping[str, Sequence[Difference]]) -> str:
    """Write differences as JSON: layer → list of object, path, values by side."""
    tree = {
        layer: [{"object": one.object, "path": one.path, "values": dict(one.values)} for one in found]
        for layer, found in layers.items()
    }
    return json.dumps({"layers": tree}, indent=2, ensure_ascii=False) + "\n"


def as_text(layers: Mapping[str, Sequence[Difference]], sides: Sequence[str]) -> str:
    """Write differences as text: a heading for each layer and object, then one line for each side of a field."""
    lines: list[str] = []
    for layer, found in layers.items():
        count = f"{len(found)} field{'s' if len(found) > 1 else ''}" if found else "no field"
        lines.append(f"{layer}: {count} differ{'s' if len(found) <= 1 else ''}")
        for name in dict.fromkeys(one.object for one in found):
            lines.append(f"  {name}")
            for one in found:
                if one.object == name:
                    lines += _field(one, sides)
    return "\n".join(lines) + "\n"


def _field(one: Difference, sides: Sequence[str]) -> list[str]:
    width = max(len(side) for side in sides)
    shared = set.intersection(*({*_lines(one.values.get(side))} for side in sides))
    lines = [f"    {one.path}"]
    for side in sides:
        if side not in one.values:
            lines.append(f"      {side:<{width}}  (not set)")
            continue
        own = [text for text in _lines(one.values[side]) if text not in shared]
        lines += [f"      {side:<{width}}  {_short(text)}" for text in own or ["(same as the others)"]]
    return lines


def _lines(value: Json) -> list[str]:
    """Split a long text into lines, so that only the different ones are shown."""
    if isinstance(value, str):
        return value.splitlines() if "\n" in value else [value]
    return [json.dumps(value, ensure_ascii=False)]


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text)} characters)"
