"""Validate values with a JSON schema. No other module uses the validator, jsonschema-rs."""

# ruff: noqa: TID251 - this is the one module that may import jsonschema_rs

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, reduce
from operator import getitem
from typing import Any, Final

from jsonschema_rs import Draft7Validator, RegexOptions, ValidationError

from postrender.errors import InstallationError
from postrender.types import Json, Path


@dataclass(slots=True)
class SchemaError:
    """One validation error.

    `keyword` is the schema's keyword and `expected` its argument (for `additionalProperties`, the unknown keys). `path`
    leads to the value, `rule` to the keyword in the schema.
    """

    keyword: str
    expected: Json
    path: Path
    rule: Path


def compiled(schema: dict[str, Any]) -> Draft7Validator:
    """Return a validator for a draft-07 schema, with patterns as Go reads them; raise ValueError if it is invalid."""
    return Draft7Validator(schema, pattern_options=RegexOptions())


@cache
def _of_pattern(pattern: str) -> Draft7Validator:
    return compiled({"pattern": pattern})


def matches(pattern: str, text: str) -> bool:
    """Return whether a schema pattern occurs in a text, in linear time; raise ValueError if the pattern is invalid."""
    return _of_pattern(pattern).is_valid(text)


@cache
def read_schema(file: str) -> Schema:
    """Return a file's schema, compiled once; raise InstallationError if the file is missing or not a schema."""
    return Schema(file)


class Schema:
    """A compiled draft-07 schema file; raises InstallationError if the file is missing or not a schema."""

    def __init__(self, file: str) -> None:
        try:
            with open(file, encoding="utf-8") as stream:
                text = stream.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InstallationError(f"a schema cannot be read: {file}", fix="install grpo-charts again") from error
        try:
            self._validator = Draft7Validator(text, pattern_options=RegexOptions())
        except ValueError as error:
            raise InstallationError(f"{file} is not a schema: {error}", fix="run: make generate") from error
        # The schema itself: each finding asks for parts of it.
        self.source: Final[dict[str, Any]] = json.loads(text)

    def is_valid(self, tree: Json) -> bool:
        """Return whether the tree is valid."""
        return self._validator.is_valid(tree)

    def problems(self, tree: Json) -> list[SchemaError]:
        """Return the tree's validation errors; empty if it is valid."""
        return [_problem(error) for error in self._validator.iter_errors(tree)]

    def _parts(self, rule: Path) -> list[dict[str, Any]]:
        """Return the parts of the schema on the path to a keyword, outermost first, following references."""
        root = self.source
        part: Json = root
        parts = [root]
        for step in rule[:-1]:
            part = reduce(getitem, part["$ref"].removeprefix("#/").split("/"), root) if step == "$ref" else part[step]
            if isinstance(part, dict):
                parts.append(part)
        return parts

    def part(self, rule: Path) -> dict[str, Any]:
        """Return the part of the schema that contains the keyword at `rule`."""
        return self._parts(rule)[-1]

    def description(self, rule: Path) -> str:
        """Return the description of the innermost described schema around a keyword, or an empty text."""
        texts = [part["description"] for part in self._parts(rule) if isinstance(part.get("description"), str)]
        return texts[-1] if texts else ""


def _problem(error: ValidationError) -> SchemaError:
    kind = error.kind
    expected = kind.value
    if kind.name == "propertyNames":
        expected = getattr(expected, "instance", expected)
    elif kind.name in ("oneOf", "anyOf"):
        expected = None
    return SchemaError(kind.name, expected, tuple(error.instance_path), tuple(error.evaluation_path))
