"""Judge Kubernetes, Ray and GKE objects by their schemas, offline.

The schemas are the strict ones in schemas/kinds/: an unknown field is a violation, for the API server would drop it.
Messages say what was expected and never what was found, because that may be a secret.
"""

from __future__ import annotations

import json
import os
from functools import cache

from postrender import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    import jsonschema_rs  # noqa: TID251 (parts of files are compiled here; postrender.schema compiles whole files)

FILES = ("kubernetes.json", "custom.json")
TYPE_NAMES: Mapping[type, str] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}
LIMITS: Mapping[str, str] = {
    "minimum": "{} or more",
    "maximum": "{} or less",
    "minLength": "{} characters or more",
    "maxLength": "{} characters or fewer",
    "minItems": "{} entries or more",
}


class Violation:
    """Hold one thing that is wrong: the path of the field from the top of the object, and what was expected there."""

    __slots__ = ("message", "path")

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        self.path = path
        self.message = message

    def __str__(self) -> str:
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path).lstrip(".")
        return f"{where}: {self.message}" if where else self.message

    def __repr__(self) -> str:
        return f"Violation({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Violation) and (self.path, self.message) == (other.path, other.message)

    def __hash__(self) -> int:
        return hash((self.path, self.message))


class Library:
    """Hold the schemas: the entry of each `apiVersion/kind`, the definitions, and words for their patterns."""

    __slots__ = ("definitions", "kinds", "words")

    def __init__(self, kinds: dict[str, Any], definitions: dict[str, Any]) -> None:
        self.kinds = kinds
        self.definitions = definitions
        self.words = dict(_words(definitions))


@cache
def library() -> Library:
    """Read the schemas once."""
    kinds: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for name in FILES:
        with open(os.path.join(paths.data_root(), "schemas", "kinds", name), encoding="utf-8") as file:
            content = json.load(file)
        kinds.update(content["kinds"])
        definitions.update(content["$defs"])
    return Library(kinds, definitions)


def _words(node: object) -> Iterator[tuple[str, str]]:
    """Yield each pattern that has a description; beside a pattern, a description can only be ours."""
    if isinstance(node, dict):
        pattern, description = node.get("pattern"), node.get("description")
        if isinstance(pattern, str) and isinstance(description, str):
            yield pattern, description
        for inner in node.values():
            yield from _words(inner)


def known(obj: Mapping[str, Any]) -> bool:
    """Return whether there is a schema for the object's apiVersion and kind."""
    return kind_of(obj) in library().kinds


def kind_of(obj: Mapping[str, Any]) -> str:
    """Return `apiVersion/kind`, for instance `ray.io/v1/RayCluster`; `?` stands for what is missing."""
    return f"{obj.get('apiVersion') or '?'}/{obj.get('kind') or '?'}"


def validate(obj: Mapping[str, Any]) -> list[Violation]:
    """Return what is wrong with an object of plain JSON types, sorted by path; an empty list when nothing is.

    An object of a kind that has no schema here gets one violation that says so: it is never passed in silence.
    """
    kind = kind_of(obj)
    if kind not in library().kinds:
        return [Violation((), f"unknown kind {kind}: there is no schema for it, so it was not checked")]
    return _violations(_validator(kind), obj)


def validate_part(definition: str, part: object) -> list[Violation]:
    """Return what is wrong with a part of an object, by a definition such as `core.v1.PodTemplateSpec`.

    Raises KeyError for a definition that is not in the schemas.
    """
    return _violations(_validator(definition), part)


def schema(name: str) -> dict[str, Any]:
    """Return the self-contained draft-07 schema of a kind (`v1/Pod`) or a definition (`core.v1.PodSpec`)."""
    kinds, definitions = library().kinds, library().definitions
    roots: list[dict[str, Any]] = [{"$ref": f"#/$defs/{name}"}]
    if name in kinds:
        entry = kinds[name]
        roots = [{"$ref": f"#/$defs/{entry['definition']}"}, _head(entry)]
    needed = closure(definitions, references(roots))
    return {"$schema": "http://json-schema.org/draft-07/schema#", "allOf": roots, "$defs": needed}


def _head(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every object of a kind needs: a name of the right shape, or a generateName."""
    metadata = {
        "type": "object",
        "properties": {"name": {"$ref": f"#/$defs/{entry['name']}"}},
        "if": {"required": ["generateName"]},
        "else": {"required": ["name"]},
    }
    required = ["apiVersion", "kind", "metadata", *entry["required"]]
    not_null = {key: {"not": {"type": "null"}} for key in entry["required"]}
    return {"type": "object", "required": required, "properties": {"metadata": metadata, **not_null}}


def references(node: object) -> Iterator[str]:
    """Yield the name of each definition that a schema refers to."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rsplit("/", 1)[-1]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def closure(definitions: Mapping[str, Any], roots: Iterable[str]) -> dict[str, Any]:
    """Return the definitions that the roots need, themselves included, sorted by name.

    Raises KeyError for a reference to a definition that does not exist.
    """
    todo, seen = list(roots), set[str]()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(references(definitions[name]))
    return {name: definitions[name] for name in sorted(seen)}


@cache
def _validator(name: str) -> jsonschema_rs.Draft7Validator:
    import jsonschema_rs  # noqa: TID251 (as above; and a run without objects never pays for the import)

    return jsonschema_rs.Draft7Validator(schema(name))


def _violations(validator: jsonschema_rs.Draft7Validator, value: object) -> list[Violation]:
    if validator.is_valid(value):
        return []
    found = {v for error in validator.iter_errors(value) for v in _describe(error)}
    return sorted(found, key=lambda v: ([(isinstance(p, str), p) for p in v.path], v.message))


def _describe(error: jsonschema_rs.ValidationError) -> Iterator[Violation]:
    path = tuple(error.instance_path)
    kind, value = error.kind.name, error.kind.value
    if kind == "additionalProperties":
        for name in value:
            yield Violation((*path, name), "unknown field; correct its spelling or its place")
        return
    yield Violation(path, _message(kind, value, error.instance))


def _message(kind: str, value: object, instance: object) -> str:
    """Return one sentence; of the instance it tells only the type."""
    found = TYPE_NAMES.get(type(instance), "something else")
    if kind in LIMITS:
        return f"expected {LIMITS[kind].format(value)}"
    if kind == "type":
        return f"expected {_types(value)}, got {found}"
    if kind == "pattern":
        return f"expected {library().words.get(str(value), f'text that matches {value}')}"
    if kind == "enum" and isinstance(value, list):
        return f"expected one of {', '.join(repr(v) for v in value if v is not None)}"
    if kind == "required":
        return f"{value!r} is missing"
    if kind == "not":
        return f"expected a value, got {found}"
    if kind == "anyOf" and isinstance(value, list):
        forms = (_message(form[0].kind.name, form[0].kind.value, instance) for form in value if form)
        return f"fits none of the allowed forms: {'; or '.join(forms)}"
    return f"does not fit the schema ({kind})"


def _types(value: object) -> str:
    return " or ".join(sorted(t for t in value if t != "null")) if isinstance(value, list) else str(value)
