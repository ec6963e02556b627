"""Read the values that wiring follows from, in a fraction of the time that a whole judgement of them takes."""

from __future__ import annotations

from postrender import overlays, textio, yamlfast
from postrender.errors import InputError
from postrender.precomputed import SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from postrender.plain import Plain
    from postrender.values import Values

_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "object": dict}


def load(files: Sequence[str]) -> dict[str, Any]:
    """Merge values files over the charts' defaults, as Helm does; only the sections of wiring are judged.

    Raises UnreadableError and InputError as `values.load` does, and InputError where a key is misspelt, missing or of
    the wrong type.
    """
    names = SCHEMA["propertyNames"]["enum"]
    trees = [yamlfast.load(textio.read_bytes(file)) for file in files]
    profiles = {overlays.profile_name(tree or {}) for tree in trees} - {""}
    if None in trees or len(profiles) > 1:
        # Something that only the full reader knows, or that it can point at.
        trees = [_with_places(files).as_helm_merges()]
    merged = SCHEMA["default"]
    for tree in trees:
        merged = overlays.overlay(merged, tree or {})
    for name in merged:
        if name not in names:
            raise InputError(
                f"there is no section {name}",
                at=_with_places(files).at((name,)),
                fix=f"it may be one of {', '.join(names)}",
            )
    wanted = {name: merged[name] for name in SCHEMA["properties"] if name in merged}
    sections: dict[str, Any] = overlays.without_nulls(wanted)
    if not sections.get("accelerator"):
        raise InputError(
            "no accelerator profile among the values",
            fix="give --values values/accelerators/b200.yaml (or h200.yaml) before the other files",
        )
    wrong = misfit(sections, SCHEMA)
    if wrong is not None:
        path, reason = wrong
        raise InputError(
            f"{'.'.join(path)}: {reason}",
            at=_with_places(files).at(path),
            fix=f"grpo values {path[0]} says what is expected",
        )
    return sections


def _with_places(files: Sequence[str]) -> Values:
    from postrender import values

    return values.load(files)


def misfit(value: Plain, schema: Mapping[str, Any]) -> tuple[tuple[str, ...], str] | None:
    """Return the path of the first value that a schema like SCHEMA does not allow, and why; None if all fits."""
    kind = schema["type"]
    if type(value) is not _TYPES[kind]:
        return (), f"expected {'a map' if kind == 'object' else f'a value of type {kind}'}"
    if not isinstance(value, dict):
        if "enum" not in schema or value in schema["enum"]:
            return None
        return (), f"expected one of {', '.join(schema['enum'])}"
    for key in schema.get("required", ()):
        if key not in value:
            return (key,), "a value is needed here"
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    for key, item in value.items():
        inner = properties.get(key, more)
        if not inner:
            return (key,), "there is no key of this name"
        found = misfit(item, inner)
        if found is not None:
            return (key, *found[0]), found[1]
    return None
