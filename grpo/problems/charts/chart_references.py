"""A schema refers only to parts of its own file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urldefrag, urljoin

from grpo.problems.charts.jsonschemas import DRAFT_7, draft, entry, subschemas
from grpo.problems.charts.wording import some
from postrender.finding import ERROR, WARNING, Finding
from postrender.problem import CHART, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart
    from postrender.yaml.reader import Node

# The name that Helm gives to a chart's schema: it resolves references beside it, at the root of the file system.
_SELF: Final = "file:///values.schema.json"
_WEB: Final = ("http://", "https://")
_OF_DRAFTS: Final = ("http://json-schema.org/", "https://json-schema.org/")
# Keywords that do not validate, and those that a reference makes unnecessary.
_SAYS_NOTHING: Final = frozenset(
    (
        *("$ref", "$id", "id", "$schema", "$comment", "$defs", "definitions", "$anchor"),
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "type"),
    )
)
_JUDGES: Final = frozenset(
    (
        *("enum", "const", "properties", "patternProperties", "additionalProperties", "propertyNames", "required"),
        *("minProperties", "maxProperties", "items", "additionalItems", "contains", "minItems", "maxItems"),
        *("uniqueItems", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "not", "if"),
    )
)


def _targets(root: Node) -> Iterator[tuple[Node, str, str]]:
    """Yield each reference to another file, as written and as Helm resolves it."""
    ids = {_SELF}
    bases: dict[tuple[str, ...], str] = {}
    for path, node in subschemas(root):
        above = next((bases[path[:end]] for end in range(len(path) - 1, -1, -1) if path[:end] in bases), _SELF)
        own = entry(node, "$id")
        bases[path] = urldefrag(urljoin(above, str(own.value))).url if own else above
        ids.add(bases[path])
    for path, node in subschemas(root):
        written = entry(node, "$ref")
        if written and isinstance(written.value, str):
            target = urldefrag(urljoin(bases[path], written.value)).url
            if target not in ids and not target.startswith(_OF_DRAFTS):
                yield written, written.value, target


def _not_found(chart: Chart) -> Iterator[Finding]:
    for node, written, target in _targets(chart.schema) if chart.schema else ():
        if target.startswith("file://"):
            path = target.removeprefix("file://")
            yield Finding(f"Helm does not look for {written} in the chart, but at {path} on each machine", node.at)
        elif not target.startswith(_WEB):
            yield Finding(f"Helm does not find {written}, so any value is valid", node.at)


def _fetched(chart: Chart) -> Iterator[Finding]:
    if not chart.schema:
        return
    named = entry(chart.schema, "$schema")
    if named and draft(chart.schema) is None:
        yield Finding(f"$schema is {named.value}, which is not a draft that Helm knows", named.at)
    for node, written, target in _targets(chart.schema):
        if target.startswith(_WEB):
            yield Finding(f"{written} is on another machine", node.at)


def _beside(chart: Chart) -> Iterator[Finding]:
    if not chart.schema or (draft(chart.schema) or DRAFT_7 + 1) > DRAFT_7:
        return
    found = []
    for path, node in subschemas(chart.schema):
        if entry(node, "$ref") and isinstance(node.value, dict):
            beside = [key for key in node.value if key in _JUDGES and key not in _SAYS_NOTHING]
            found += [(node.value[key], f"{key} at /{'/'.join(path)}") for key in beside]
    if found:
        yield Finding(f"ignored beside a $ref: {some([text for _, text in found])}", found[0][0].key_at)


RULES = (
    Problem(
        "chart/reference-not-found",
        target=CHART,
        severity=ERROR,
        title="the schema has a reference that Helm does not find",
        why="Helm reads no other schema file of the chart: it refuses to render, or accepts every value",
        fix="put it below $defs of values.schema.json, and refer to #/$defs/NAME",
        source="https://helm.sh/docs/topics/charts/#schema-files",
        check=_not_found,
    ),
    Problem(
        "chart/reference-fetched",
        target=CHART,
        severity=WARNING,
        title="the schema refers to another server",
        why="each render downloads it: without the network, or after a change there, every install fails",
        fix="put it below $defs of values.schema.json; for $schema use a draft of json-schema.org",
        source="https://helm.sh/docs/topics/charts/#schema-files",
        check=_fetched,
    ),
    Problem(
        "chart/beside-reference",
        target=CHART,
        severity=WARNING,
        fails=Fails.SILENT,
        title="the schema has keywords beside a $ref, but Helm ignores them",
        why="up to draft 7, Helm ignores all keywords beside a $ref",
        fix="put the $ref into allOf, or set $schema to draft 2020-12",
        source="https://json-schema.org/understanding-json-schema/structuring#dollarref",
        check=_beside,
    ),
)
