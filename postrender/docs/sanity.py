"""Refuse careless schema sources: each problem is one line that names the key and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterator

from postrender.docs import beginnings
from postrender.docs.files import reference_name
from postrender.docs.sources import CHARTS, LEFT_TO_TEMPLATE, Schema, Sources, all_required

KEYWORDS = frozenset(
    (
        *("type", "enum", "const", "not", "oneOf", "anyOf", "allOf", "if", "then", "else", "$ref"),
        *(
            "pattern",
            "minLength",
            "maxLength",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ),
        *("items", "minItems", "maxItems", "uniqueItems"),
        *("properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties"),
        *("dependencies", "description", "default", "examples"),
        *("x-unit", "x-source", "x-requiredIn", "x-verbatim", "x-kubernetes", "x-without", "x-nullable"),
    )
)
# Go's RE2 has neither look-around nor back-references; Helm would refuse the whole schema.
NOT_RE2 = re.compile(r"\(\?(=|!|<=|<!|>|P=)|\\[1-9]")
# Texts are searched for it before any pattern is tried.
BEGINNING = re.compile(r"[A-Za-z0-9_-]{2,}")
RE2_PROBLEM = "the pattern uses look-around or a back-reference, which RE2 does not know"


def check(sources: Sources) -> Iterator[str]:
    """Yield one line for each mistake in the sources, with the path of the key."""
    for name, (_, starts, begins_word, *_) in beginnings.beginnings(sources.tokens).items():
        pattern = sources.tokens[name]
        if NOT_RE2.search(pattern):
            yield f"tokens.{name}: {RE2_PROBLEM}"
        if beginnings.has_alternatives(pattern):
            yield f"tokens.{name}: what matches may begin in several ways: write each as a shape of its own"
        elif not all(map(BEGINNING.fullmatch, starts)) or (begins_word and starts[0].startswith("-")):
            yield f"tokens.{name}: expected two letters, digits, _ or - in front, or \\b and a letter"
    for name, node in sources.defs.items():
        yield from _keywords(node, f"_defs.{name}")
    for name, node in sources.sections.items():
        # A chart without a profile must find no accelerator at all, so nothing there can have a default.
        yield from _node(sources, node, name, required=False, entry=name in LEFT_TO_TEMPLATE)


def _keywords(node: Schema, path: str) -> Iterator[str]:
    yield from (f"{path}: unknown keyword {key!r}" for key in node if key not in KEYWORDS)
    for pattern in (node.get("pattern"), node.get("propertyNames", {}).get("pattern")):
        if isinstance(pattern, str) and NOT_RE2.search(pattern):
            yield f"{path}: {RE2_PROBLEM}"


def _node(sources: Sources, raw: object, path: str, *, required: bool, entry: bool) -> Iterator[str]:
    """Check one key; `entry` says that it lies inside an entry of a map, where nothing can have a default."""
    if not isinstance(raw, dict):
        yield f"{path}: expected a schema, which is a mapping"
        return
    yield from _keywords(raw, path)
    ref = raw.get("$ref")
    if ref is not None and (not str(ref).startswith("#/$defs/") or reference_name(ref) not in sources.defs):
        yield f"{path}: unknown $ref {ref!r}; expected '#/$defs/NAME' with NAME from schemas/values/_defs.yaml"
        return
    node = sources.resolve(raw)
    if not node.get("description"):
        yield f"{path}: expected a description"
    if node.get("type") == "object":
        yield from _object(sources, node, path, required=required, entry=entry)
    else:
        yield from _leaf(node, path, required=required, entry=entry)


def _object(sources: Sources, node: Schema, path: str, *, required: bool, entry: bool) -> Iterator[str]:
    inner = node.get("additionalProperties")
    shapes = [k for k in ("properties", "x-verbatim", "x-kubernetes") if node.get(k)]
    shapes += ["additionalProperties"] if isinstance(inner, dict) else []
    if len(shapes) != 1:
        yield f"{path}: an object has one of properties, additionalProperties (a schema), x-verbatim, x-kubernetes"
    elif shapes == ["properties"]:
        yield from _properties(sources, node, path, entry=entry)
    else:
        yield from _default(node, path, required=required, entry=entry)
        if set(node.get("propertyNames", ("pattern",))) != {"pattern"}:
            yield f"{path}: propertyNames has a pattern and nothing else"
        if inner is not None:
            yield from _node(sources, inner, f"{path}.<key>", required=True, entry=True)


def _properties(sources: Sources, node: Schema, path: str, *, entry: bool) -> Iterator[str]:
    if "default" in node:
        yield f"{path}: the default of an object stands in its leaves"
    for chart in node.get("x-requiredIn", {}):
        if chart not in CHARTS:
            yield f"{path}: x-requiredIn names the unknown chart {chart!r}; expected one of {', '.join(CHARTS)}"
    needed = all_required(node)
    for key in sorted(needed - set(node["properties"])):
        yield f"{path}: requires {key!r}, which is not among its properties"
    for key, inner in node["properties"].items():
        yield from _node(sources, inner, f"{path}.{key}", required=key in needed, entry=entry)


def _leaf(node: Schema, path: str, *, required: bool, entry: bool) -> Iterator[str]:
    kind = node.get("type")
    if not isinstance(kind, str):
        yield f"{path}: expected one type a key"
    if kind in ("integer", "number") and not node.get("x-unit"):
        yield f"{path}: expected x-unit, because it is a number"
    if kind == "array" and not isinstance(node.get("items"), dict):
        yield f"{path}: expected items, because it is an array"
    yield from _default(node, path, required=required, entry=entry)


def _default(node: Schema, path: str, *, required: bool, entry: bool) -> Iterator[str]:
    if not node.get("x-source"):
        yield f"{path}: expected x-source, an upstream page or file, or 'ours'"
    if "default" not in node:
        if not required and not entry:
            yield f"{path}: expected a default, or the key in its parent's required"
    elif node["default"] is None:
        yield f"{path}: a null default means nothing to Helm; give a value, or leave the default out"
    elif entry:
        yield (
            f"{path}: a default inside an entry of a map, or a profile, is never applied;"
            " say in the description what absence means"
        )
    elif required:
        yield f"{path}: is required and has a default; drop one of them"
