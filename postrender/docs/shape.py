"""Write the schema of the sections that wiring follows from, with defaults, and without what takes long to judge.

It starts with every install, and a JSON Schema library alone takes longer to load than all of its work; what Python has
compiled already is quicker to load than any file to read. What does not fit this small schema is for the whole one to
judge.
"""

from __future__ import annotations

import json

from postrender.docs import reference
from postrender.docs.schemas import PASSED_THROUGH, has_default
from postrender.docs.sources import Schema, Sources

PATH = "postrender/wiringschema.py"
_HEAD = '''"""Schema and defaults of the sections that wiring follows from; `make generate` writes this file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCHEMA: dict[str, Any] = '''
_WIDTH = 120
# The sections that postrender/wiring.py reads.
SECTIONS = ("stack", "platform", "accelerator", "network", "huggingface", "tracking", "images")
# Elsewhere only what has a default is required: who wires a chart of somebody else names no stack, and no image.
_WHOLE = "accelerator"
# The chart whose defaults hold for pods.
_CHART = "raycluster"


def render(sources: Sources) -> str:
    """Return the module that holds the schema; every object in it is strict."""
    sections = {name: _shape(sources, sources.sections[name], whole=name == _WHOLE) for name in SECTIONS}
    defaults = {name: reference.defaults(sources, _CHART).get(name, {}) for name in SECTIONS if name != _WHOLE}
    names = [*sources.sections, *PASSED_THROUGH]
    schema = {"type": "object", "propertyNames": {"enum": names}, "default": defaults}
    schema |= {"required": [*SECTIONS], "properties": sections}
    return f"{_HEAD}{_literal(schema, 0, len(_HEAD.splitlines()[-1]))}\n"


def _literal(value: object, indent: int, before: int) -> str:
    """Return a literal as the formatter writes it: on one line behind `before` columns, if it fits with a comma."""
    flat = _flat(value)
    if not value or not isinstance(value, (dict, list)) or before + len(flat) < _WIDTH:
        return flat
    inner = indent + 4
    keys = [f"{_flat(key)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    values = value.values() if isinstance(value, dict) else value
    entries = [f"{key}{_literal(each, inner, inner + len(key))}" for key, each in zip(keys, values, strict=True)]
    body = "".join(f"{' ' * inner}{entry},\n" for entry in entries)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{body}{' ' * indent}{last}"


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flat(key)}: {_flat(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _shape(sources: Sources, raw: Schema, *, whole: bool) -> Schema:
    node = sources.resolve(raw)
    kept: Schema = {key: node[key] for key in ("type", "enum") if key in node}
    if node.get("type") != "object":
        return kept
    properties = node.get("properties", {})
    # A key with a default is there, unless somebody has taken it away with null.
    required = [
        key
        for key, inner in properties.items()
        if (whole and key in node.get("required", ())) or has_default(sources, inner)
    ]
    more = node.get("additionalProperties")
    shape = {
        **kept,
        "required": required,
        "properties": {key: _shape(sources, inner, whole=whole) for key, inner in properties.items()},
        "additionalProperties": _shape(sources, more, whole=whole) if isinstance(more, dict) else False,
    }
    return {key: value for key, value in shape.items() if value or key == "additionalProperties"}
