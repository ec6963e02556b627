"""Read the values that wiring follows from, in a fraction of the time that a whole judgement of them takes."""

from __future__ import annotations

from postrender import paths, textio, values, yamlfast
from postrender.errors import InputError, InstallationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from postrender.plain import Plain

_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "object": dict}


class DoubtfulError(InputError):
    """The values do not have the form of the contract; `grpo lint` says where and why."""


def load(files: Sequence[str]) -> dict[str, Any]:
    """Merge values files over the charts' defaults, as Helm does; only the sections of wiring are looked at.

    Raises UnreadableError and InputError as `values.load` does, and DoubtfulError where a key is misspelt, missing or
    of the wrong type.
    """
    trees = [yamlfast.load(textio.read_bytes(file)) for file in files]
    profiles = {values.profile_name(tree or {}) for tree in trees} - {""}
    if None in trees or len(profiles) > 1:
        # Something that only the full reader knows, or that it can point at.
        merged = values.load(files).effective()
    else:
        merged = {}
        for tree in trees:
            merged = values.overlay(merged, tree or {})
    known = _packaged(paths.wiring_schema())
    whole = values.without_nulls(values.overlay(_packaged(paths.defaults("raycluster")), merged))
    sections = {name: whole[name] for name in known["properties"] if name in whole}
    if not sections.get("accelerator"):
        raise InputError(
            "no accelerator profile among the values",
            fix="give --values values/accelerators/b200.yaml (or h200.yaml) before the other files",
        )
    if not fits(sections, {"type": "object", **known}):
        raise DoubtfulError("the values do not have the form that the charts expect", fix="grpo lint -f … says where")
    return sections


def _packaged(path: str) -> dict[str, Any]:
    """Read a file that belongs to this package."""
    tree = yamlfast.parse(textio.read_bytes(path).decode("utf-8"))
    if not isinstance(tree, dict):
        raise InstallationError(f"{path} is damaged", fix="install grpo-charts again")
    return tree


def fits(value: Plain, schema: Mapping[str, Any]) -> bool:
    """Say whether a value has the types, keys and choices of schemas/wiring.schema.json."""
    if type(value) is not _TYPES.get(schema.get("type", ""), type(value)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if not isinstance(value, dict):
        return True
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    if not all(key in value for key in schema.get("required", ())):
        return False
    return all(key in properties or more for key in value) and all(
        fits(item, properties.get(key, more)) for key, item in value.items()
    )
