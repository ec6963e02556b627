"""The schema of the sections that wiring follows from, with defaults, and without what takes long to judge.

It is read with every install, and a JSON Schema library alone takes longer to load than all of the work. What does not
fit this small schema is for the whole one to judge.
"""

from __future__ import annotations

from postrender.docs import reference
from postrender.docs.schemas import PASSED_THROUGH, has_default
from postrender.docs.sources import Schema, Sources

# The sections that postrender/wiring.py reads.
SECTIONS = ("stack", "platform", "accelerator", "network", "huggingface", "tracking", "images")
# Elsewhere only what has a default is required: who wires a chart of somebody else names no stack, and no image.
_WHOLE = "accelerator"
# The chart whose defaults hold for pods.
_CHART = "raycluster"


def schema(sources: Sources) -> Schema:
    """Return the schema; every object in it is strict."""
    sections = {name: _shape(sources, sources.sections[name], whole=name == _WHOLE) for name in SECTIONS}
    defaults = {name: reference.defaults(sources, _CHART).get(name, {}) for name in SECTIONS if name != _WHOLE}
    names = (*sources.sections, *PASSED_THROUGH)
    schema = {"type": "object", "propertyNames": {"enum": names}, "default": defaults}
    return schema | {"required": SECTIONS, "properties": sections}


def _shape(sources: Sources, raw: Schema, *, whole: bool) -> Schema:
    node = sources.resolve(raw)
    # Tuples are there when Python has read them; lists are made at every start.
    kept: Schema = {"type": node["type"]} if "type" in node else {}
    kept |= {"enum": tuple(node["enum"])} if "enum" in node else {}
    if node.get("type") != "object":
        return kept
    properties = node.get("properties", {})
    # A key with a default is there, unless somebody has taken it away with null.
    required = tuple(
        key
        for key, inner in properties.items()
        if (whole and key in node.get("required", ())) or has_default(sources, inner)
    )
    more = node.get("additionalProperties")
    shape = {
        **kept,
        "required": required,
        "properties": {key: _shape(sources, inner, whole=whole) for key, inner in properties.items()},
        "additionalProperties": _shape(sources, more, whole=whole) if isinstance(more, dict) else False,
    }
    return {key: value for key, value in shape.items() if value or key == "additionalProperties"}
