"""Describe objects' schema errors in words: what was expected, but not the value, which may be a secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from postrender import spelling
from postrender.types import Json, Path, Untyped
from postrender.values import quantity
from postrender.values.mutations import dotted
from postrender.yaml.scalars import resolve

_EXPECTED: Final[Mapping[str, str]] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "a map",
    "string": "a string",
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
_SINGULAR: Final = {" characters": " character", " entries": " entry", " keys": " key"}
_PYTHON: Final[Mapping[str, type]] = {"boolean": bool, "integer": int, "number": float}
_UNKNOWN: Final = "unknown field; correct its spelling or its place"
# Values that mean the default; messages do not list them.
_UNLISTED: Final = (None, "")
# How the descriptions of patterns for amounts begin.
_QUANTITY: Final = "a quantity"
_FORMS: Final = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Violation:
    """One schema error: the path of the field from the object's root, and what was expected.

    `keyword` is the schema's keyword. `missing` is the name of a required field that the object lacks, `near` the
    field that an unknown one may stand for.
    """

    path: Path
    message: str
    keyword: str = field(default="", kw_only=True, compare=False)
    missing: str = field(default="", kw_only=True, compare=False)
    near: str = field(default="", kw_only=True, compare=False)

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.message}" if self.path else self.message

    @property
    def unknown(self) -> bool:
        """Return whether the kind has no such field."""
        return self.keyword == "additionalProperties"


def describe(errors: Iterable[Untyped], schema: Mapping[str, Json], words: Mapping[str, str]) -> list[Violation]:
    """Return the errors of a schema's validator as violations, sorted by path; `words` describes its patterns."""
    found = {violation for error in errors for violation in _of(error, schema, words)}
    return sorted(found, key=lambda v: ([(isinstance(p, str), p) for p in v.path], v.message))


def patterns(node: Json) -> Iterator[tuple[str, str]]:
    """Yield each schema pattern that has a description; in Kubernetes' own schemas, no pattern has one."""
    if isinstance(node, dict):
        pattern, description = node.get("pattern"), node.get("description")
        if isinstance(pattern, str) and isinstance(description, str):
            yield pattern, description
        for inner in node.values():
            yield from patterns(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from patterns(inner)


def _of(error: Untyped, schema: Mapping[str, Json], words: Mapping[str, str]) -> Iterator[Violation]:
    path = tuple(error.instance_path)
    kind, value = error.kind.name, error.kind.value
    if kind == "additionalProperties":
        known = tuple(sorted(_fields(schema, error.schema_path)))
        for name in value:
            near = _near(name, known)
            near = "" if near in error.instance else near
            message = f"unknown field; did you mean {near}?" if near else _UNKNOWN
            yield Violation((*path, name), message, keyword=kind, near=near)
    elif kind == "propertyNames":
        # Report a wrong key at the key itself.
        message = _message(value.kind.name, value.kind.value, value.instance, words)
        yield Violation((*path, value.instance), message, keyword=kind)
    else:
        missing = str(value) if kind == "required" else ""
        yield Violation(path, _message(kind, value, error.instance, words), keyword=kind, missing=missing)


@lru_cache(maxsize=1000)
def _near(name: str, known: Sequence[str]) -> str:
    """Return the known name that is most like a misspelt one: many objects of a stream have the same mistake."""
    return next(iter(spelling.near(name, known)), "")


def _fields(schema: Mapping[str, Json], rule: Sequence[str | int]) -> set[str]:
    """Return the fields beside a keyword of a schema; a validator's path to it follows no reference."""
    part: Json = schema
    for step in rule[:-1]:
        part = part[step]
    return set(part.get("properties", ()))


def _message(kind: str, value: Json, instance: Json, words: Mapping[str, str]) -> str:
    """Return what was expected; it does not contain the instance, but for amounts of memory."""
    if kind in LIMITS:
        return f"expected {_limit(kind, value)}"
    if kind == "type":
        return f"expected {_types(value)}{_quotes(value, instance)}"
    if kind == "pattern":
        wanted = words.get(str(value), f"text that matches {value}")
        near = quantity.near(instance) if isinstance(instance, str) and wanted.startswith(_QUANTITY) else ""
        return f"expected {wanted}" + (f"; did you mean {near}?" if near else "")
    if kind == "enum" and isinstance(value, list):
        return _among([each for each in value if each not in _UNLISTED], instance)
    if kind == "required":
        return f"{value!r} is missing"
    if kind == "not":
        return "expected a value"
    if kind in _FORMS and isinstance(value, list):
        forms = [_message(form[0].kind.name, form[0].kind.value, instance, words) for form in value if form]
        if len(forms) < len(value):
            return f"fits {len(value) - len(forms)} of the {len(value)} allowed forms, expected one"
        return f"fits none of the allowed forms: {'; or '.join(dict.fromkeys(forms))}"
    return f"does not fit the schema ({kind})"


def _among(known: Sequence[Json], instance: Json) -> str:
    if not known:
        return "expected nothing"
    names = [each for each in known if isinstance(each, str)]
    meant = spelling.meant(instance, names, is_value=True) if isinstance(instance, str) and instance else ""
    listed = ", ".join(map(repr, known))
    return f"expected {listed if len(known) == 1 else f'one of {listed}'}" + (
        f"; did you mean {meant}?" if meant else ""
    )


def _limit(kind: str, value: Json) -> str:
    words = LIMITS[kind].format(value)
    if value == 1:
        for plural, singular in _SINGULAR.items():
            words = words.replace(plural, singular)
    return words


def _types(value: Json) -> str:
    names = sorted(each for each in value if each != "null") if isinstance(value, list) else [str(value)]
    return " or ".join(_EXPECTED.get(each, each) for each in names)


def _quotes(value: Json, instance: Json) -> str:
    """Say what to do with the quotes of a scalar that has the wrong type only because of them, or without them."""
    types = set(value) - {"null"} if isinstance(value, list) else {value}
    if types == {"string"} and isinstance(instance, int | float):
        return "; write it in quotes"
    if not isinstance(instance, str) or "string" in types:
        return ""
    wanted = tuple(_PYTHON[each] for each in types if each in _PYTHON)
    return "; remove the quotes" if type(resolve(instance)) in wanted else ""
