"""Read and check the values that the wiring needs, without a JSON Schema library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from postrender import facts, secrets
from postrender.errors import InputError
from postrender.types import Json
from postrender.values import merge
from postrender.values.merge import Values
from postrender.wiring import platform

# The only pattern of the schema: the name of an object.
NAME: Final = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
}


def load(files: Sequence[str]) -> dict[str, Any]:
    """Return the sections that the wiring needs from values files; raise as `merge.load` and `sections` do."""
    return sections(merge.load(files))


def sections(given: Values) -> dict[str, Any]:
    """Merge values over the charts' defaults as Helm does, then check and return the sections that the wiring needs.

    Raises InputError if a key is misspelt, missing or has the wrong type, and as platform.check does.
    """
    schema = facts.load("wiring.json")
    merged = merge.overlay(schema["default"], given.as_helm_merges())
    names = schema["propertyNames"]["enum"]
    for name in merged:
        if name not in names:
            fix = f"the sections are {', '.join(names)}"
            raise InputError(f"there is no section {name}", at=given.at((name,)), fix=fix)
    wanted = {name: merged[name] for name in schema["properties"] if name in merged}
    found: dict[str, Any] = merge.without_nulls(wanted)
    if not found.get("accelerator"):
        raise InputError(
            "no accelerator profile among the values",
            fix="give --values values/accelerators/NAME.yaml of your machines before the other files",
        )
    wrong = first_mismatch(found, schema)
    if wrong is not None:
        path, reason = wrong
        fix = f"run: grpo values {path[0]}"
        raise InputError(f"{'.'.join(path)}: {reason}", at=given.at(path), fix=fix)
    platform.check(found, given)
    return found


def first_mismatch(value: Json, schema: Mapping[str, Any]) -> tuple[tuple[str, ...], str] | None:
    """Return the path of the first value that does not match a schema, and the reason; None if all values match.

    The schema uses only the keywords in schemas/generated/wiring.json: types, enums, the pattern NAME, required keys,
    strict objects.
    """
    kind = schema["type"]
    # A boolean is no integer here.
    if type(value) not in _TYPES[kind]:
        return (), f"expected {'a map' if kind == 'object' else f'a value of type {kind}'}"
    if not isinstance(value, dict):
        if "enum" in schema and value not in schema["enum"]:
            return (), f"expected one of {', '.join(schema['enum'])}"
        # A secret in the place of its name has a message of its own.
        is_wrong = "pattern" in schema and not NAME.search(value) and not secrets.shape_of(value)
        no_name = "no object has such a name, which has small letters, digits, - and . (the value is not shown)"
        return ((), no_name) if is_wrong else None
    for key in schema.get("required", ()):
        if key not in value:
            return (key,), "this value is required"
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    for key, item in value.items():
        inner = properties.get(key, more)
        if not inner:
            return (key,), "there is no such key"
        found = first_mismatch(item, inner)
        if found is not None:
            return (key, *found[0]), found[1]
    return None
