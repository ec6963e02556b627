"""Describe schema errors of objects in words: what was expected, but not the value, which may be a secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from postrender.types import Json, Path, Untyped
from postrender.values import quantity
from postrender.values.mutations import dotted

TYPE_NAMES: Final[Mapping[type, str]] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}
LIMITS: Final[Mapping[str, str]] = {
    "minimum": "{} or more",
    "exclusiveMinimum": "more than {}",
    "maximum": "{} or less",
    "minLength": "{} characters or more",
    "maxLength": "{} characters or fewer",
    "minItems": "{} entries or more",
    "maxItems": "{} entries or fewer",
    "maxProperties": "{} keys or fewer",
    "uniqueItems": "entries of which no two are alike",
}
_UNKNOWN: Final = "unknown field; correct its spelling or its place"
# Values that mean the default; messages do not list them.
_UNLISTED: Final = (None, "")
# How the descriptions of patterns for amounts begin.
_QUANTITY: Final = "a quantity"
_FORMS: Final = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Violation:
    """One schema error: the path of the field from the object's root, and what was expected.

    `unknown` is true if the kind has no such field.
    """

    path: Path
    message: str
    unknown: bool = field(default=False, kw_only=True, compare=False)

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.message}" if self.path else self.message


def describe(errors: Iterable[Untyped], words: Mapping[str, str]) -> list[Violation]:
    """Return a validator's errors as violations, sorted by path; `words` describes patterns."""
    found = {violation for error in errors for violation in _of(error, words)}
    return sorted(found, key=lambda v: ([(isinstance(p, str), p) for p in v.path], v.message))


def patterns(node: Json) -> Iterator[tuple[str, str]]:
    """Yield each pattern of a schema that has a description; Kubernetes' own schemas have none beside a pattern."""
    if isinstance(node, dict):
        pattern, description = node.get("pattern"), node.get("description")
        if isinstance(pattern, str) and isinstance(description, str):
            yield pattern, description
        for inner in node.values():
            yield from patterns(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from patterns(inner)


def _of(error: Untyped, words: Mapping[str, str]) -> Iterator[Violation]:
    path = tuple(error.instance_path)
    kind, value = error.kind.name, error.kind.value
    if kind == "additionalProperties":
        for name in value:
            yield Violation((*path, name), _UNKNOWN, unknown=True)
        return
    if kind == "propertyNames":
        # Report a wrong key at the key itself.
        yield Violation((*path, value.instance), _message(value.kind.name, value.kind.value, value.instance, words))
        return
    yield Violation(path, _message(kind, value, error.instance, words))


def _message(kind: str, value: Json, instance: Json, words: Mapping[str, str]) -> str:
    """Return one sentence; it contains the type of the instance, not its value, but for amounts of memory."""
    found = TYPE_NAMES.get(type(instance), "something else")
    if kind in LIMITS:
        return f"expected {LIMITS[kind].format(value)}"
    if kind == "type":
        return f"expected {_types(value)}, got {found}"
    if kind == "pattern":
        wanted = words.get(str(value), f"text that matches {value}")
        near = quantity.near(instance) if isinstance(instance, str) and wanted.startswith(_QUANTITY) else ""
        return f"expected {wanted}" + (f"; did you mean {near}?" if near else "")
    if kind == "enum" and isinstance(value, list):
        known = ", ".join(repr(each) for each in value if each not in _UNLISTED)
        return f"expected one of {known}" if known else "expected nothing"
    if kind == "required":
        return f"{value!r} is missing"
    if kind == "not":
        return f"expected a value, got {found}"
    if kind in _FORMS and isinstance(value, list):
        forms = [_message(form[0].kind.name, form[0].kind.value, instance, words) for form in value if form]
        if len(forms) < len(value):
            return f"fits {len(value) - len(forms)} of the {len(value)} allowed forms, expected one"
        return f"fits none of the allowed forms: {'; or '.join(dict.fromkeys(forms))}"
    return f"does not fit the schema ({kind})"


def _types(value: Json) -> str:
    return " or ".join(sorted(t for t in value if t != "null")) if isinstance(value, list) else str(value)
