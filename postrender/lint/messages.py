"""Turn a schema's problems into findings that say what to write."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from postrender import secrets
from postrender.finding import Finding
from postrender.schema import Problem, Schema
from postrender.types import Json, Path
from postrender.values.merge import Values
from postrender.values.mutations import dotted

_SHOWN_CHARACTERS = 60
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
    "pattern": "text of the form {}",
    "const": "{}",
}
_TYPES = {"object": "a map", "array": "a list", "string": "text", "integer": "an integer", "null": "null"}


def format_value(value: Json) -> str:
    """Format a value for a message, shortened; name only the kind of a secret."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        text = secrets.mask(value)
        return f'"{text[:_SHOWN_CHARACTERS]}…"' if len(text) > _SHOWN_CHARACTERS else f'"{text}"'
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(description: str) -> str:
    """Return the key's description, without the note on its source."""
    return description.partition(" Source: ")[0] or "the chart's schema says so"


class Explainer:
    """Turn the problems of one schema with one set of values into findings."""

    def __init__(self, schema: Schema, values: Values) -> None:
        self._schema = schema
        self._values = values

    def findings(self, problem: Problem) -> Iterator[Finding]:
        """Yield one finding, or one for every unknown key."""
        part = self._schema.part(problem.rule)
        if problem.keyword == "additionalProperties":
            for key in problem.expected:
                yield self._unknown(problem.path, key, part)
        elif problem.keyword == "propertyNames":
            yield self._unknown(problem.path, str(problem.expected), part)
        elif problem.keyword == "required":
            yield self._missing(problem, part)
        else:
            yield self._wrong(problem, part)

    def _finding(self, rule: str, path: Path, what: str, why: str, fix: str) -> Finding:
        node = self._values.node(path)
        # A wrong scalar is edited after the colon; everything else at the key.
        inside = rule.startswith("wrong-") and node is not None and not isinstance(node.value, (dict, list))
        at = node.at if inside and node else self._values.at(path)
        return Finding(what, at, rule=f"values/{rule}", why=why, fix=fix)

    def _unknown(self, path: Path, key: str, part: dict[str, Any]) -> Finding:
        here = (*path, key)
        if not path and key == "values":
            return self._finding(
                "wrong-prefix",
                here,
                "there is no section called values: the sections belong at the top of the file",
                "Helm would put everything under .Values.values, where no chart looks.",
                "delete the line `values:` and move what is below it to the left; with --set, write"
                " ray.workers.replicas=4, not values.ray.workers.replicas=4",
            )
        if "." in key and key.partition(".")[0] in self._schema.source()["properties"]:
            nested = ": {".join(key.split("."))
            return self._finding(
                "dotted-key",
                here,
                f"the key {key} has a dot in its name",
                "In a values file a dot opens no section; only --set reads it so.",
                f"write {nested}: …{'}' * key.count('.')}, or the same on separate lines, indented",
            )
        known = [*part.get("properties", {})]
        patterns = [*part.get("patternProperties", {})]
        form = f"; names here must match {' or '.join(patterns)}" if patterns else ""
        return self._finding(
            "unknown-key",
            here,
            f"{dotted(path)} has no key called {key}{form}" if path else f"there is no section called {key}",
            "Helm would refuse it, or without the schema ignore it silently.",
            self._suggestion(key, known, patterns),
        )

    def _suggestion(self, key: str, known: list[str], patterns: list[str]) -> str:
        close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
        if not close:
            folded = {name.lower(): name for name in known}
            close = [folded[key.lower()]] if key.lower() in folded else []
        if close:
            return f"did you mean {close[0]}?"
        elsewhere = [dotted(path) for path in _paths(self._schema.source()) if path[-1] == key]
        if elsewhere:
            return f"did you mean {' or '.join(elsewhere)}?"
        fitting = [key.lower() for pattern in patterns if key.lower() != key and re.search(pattern, key.lower())]
        if fitting:
            return f"did you mean {fitting[0]}?"
        return f"the keys here are {', '.join(known)}" if known else "delete the line"

    def _missing(self, problem: Problem, part: dict[str, Any]) -> Finding:
        path = (*problem.path, problem.expected)
        child = part.get("properties", {}).get(problem.expected, {})
        last = self._values.files[-1]
        return self._finding(
            "missing-key",
            problem.path,
            f"{dotted(path)} is missing: none of the values files sets it",
            _meaning(str(child.get("description", ""))),
            f"set {dotted(path)} in one of the files, for instance {last}",
        )

    def _wrong(self, problem: Problem, part: dict[str, Any]) -> Finding:
        node = self._values.node(problem.path)
        value = node.plain() if node else None
        wanted, fix = self._wanted(problem, part, value)
        name = dotted(problem.path) or "the values"
        rule = "wrong-type" if problem.keyword == "type" else "wrong-value"
        size = f", {len(value)} characters long" if isinstance(value, str) and "Length" in problem.keyword else ""
        is_secret = isinstance(value, str) and any(secrets.names_secret(str(part)) for part in problem.path)
        what = f"{name} is {'a text' if is_secret else format_value(value)}{size}, expected {wanted}"
        finding = self._finding(rule, problem.path, what, _meaning(self._schema.description(problem.rule)), fix)
        return finding._replace(secret=is_secret)

    def _wanted(self, problem: Problem, part: dict[str, Any], value: Json) -> tuple[str, str]:
        """Say what the schema expects, and what to write."""
        keyword, expected = problem.keyword, problem.expected
        if keyword == "type":
            return _type(expected, value, has_default="default" in part)
        if keyword == "enum":
            options = [option for option in expected if option is not None]
            close = difflib.get_close_matches(str(value), [str(option) for option in options], n=1)
            listed = " or ".join(format_value(option) for option in options)
            return listed, f"did you mean {close[0]}?" if close else f"write one of {listed}"
        if keyword in ("oneOf", "anyOf"):
            names = [name for option in part.get(keyword, ()) for name in option.get("required", ())]
            listed = ", ".join(dict.fromkeys(names))
            return f"exactly one of {listed or 'the alternatives'}", f"keep one of {listed or 'them'}"
        if keyword in _BOUNDS:
            bound = _BOUNDS[keyword].format(expected)
            example = part.get("examples") if keyword == "pattern" else None
            return bound, f"write something like {example[0]}" if example else f"write {bound}"
        if keyword in ("falseSchema", "not"):
            return "something else here", _meaning(self._schema.description(problem.rule))
        return f"{keyword} {format_value(expected)}", "see the description of the key in values.yaml"


def _type(types: list[str], value: Json, *, has_default: bool) -> tuple[str, str]:
    real = [name for name in types if name != "null"] or types
    wanted = " or ".join(_TYPES.get(name, f"a {name}") for name in real)
    if value is None:
        return wanted, "give it a value" + (", or delete the line to keep the default" if has_default else "")
    if "string" in types and isinstance(value, (bool, int, float)):
        return f"{wanted} in quotes", "put the value in quotes: Helm reads the bare word as a number or a boolean"
    if {"integer", "number", "boolean"} & {*types} and isinstance(value, str):
        return wanted, "write the value without quotes"
    return wanted, f"write {wanted}"


def _paths(schema: dict[str, Any], path: Path = ()) -> Iterator[Path]:
    """Yield the path of every key that a schema names, outermost first."""
    properties = schema.get("properties", {})
    for key in properties:
        yield (*path, key)
    for key, child in properties.items():
        if isinstance(child, dict):
            yield from _paths(child, (*path, key))
