"""Every keyword in a schema belongs to the draft that Helm validates with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.charts.jsonschemas import DRAFT_7, LATEST, draft, entry, subschemas
from grpo.problems.charts.wording import some
from postrender.finding import INFO, WARNING, Finding
from postrender.problem import CHART, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart

_NAMES: Final = {4: "draft 4", 6: "draft 6", 7: "draft 7", 8: "draft 2019-09", 9: "draft 2020-12"}
# The first and the last draft of a keyword.
_DRAFTS: Final = {
    **dict.fromkeys(("const", "contains", "propertyNames"), (6, LATEST)),
    **dict.fromkeys(("if", "then", "else"), (7, LATEST)),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), (8, LATEST)),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "minContains", "maxContains"), (8, LATEST)),
    "prefixItems": (9, LATEST),
    "additionalItems": (4, 8),
}
# The formats that Helm's validator knows; it ignores others, such as int32, in every draft.
_FORMATS: Final = frozenset(
    (
        *("date", "date-time", "time", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uri-template"),
        *("regex", "json-pointer", "relative-json-pointer", "uuid", "duration"),
    )
)


def _keywords(chart: Chart) -> Iterator[Finding]:
    read_as = draft(chart.schema) if chart.schema else None
    if not chart.schema or read_as is None:
        return
    found = []
    for _, node in subschemas(chart.schema):
        for key in node.value if isinstance(node.value, dict) else ():
            first, last = _DRAFTS.get(key, (0, LATEST))
            if not first <= read_as <= last and (each := entry(node, key)):
                found.append((each.key_at, key))
    if found:
        names = list(dict.fromkeys(key for _, key in found))
        does = "does" if len(names) == 1 else "do"
        yield Finding(
            f"{some(names)} {does} nothing in {_NAMES[read_as]}, with which Helm validates this schema", found[0][0]
        )


def _formats(chart: Chart) -> Iterator[Finding]:
    if not chart.schema or (draft(chart.schema) or 0) <= DRAFT_7:
        return
    found = []
    for _, node in subschemas(chart.schema):
        each = entry(node, "format")
        if each and each.value in _FORMATS:
            found.append((each.key_at, str(each.value)))
    if found:
        names = list(dict.fromkeys(name for _, name in found))
        yield Finding(f"Helm does not check the formats of this schema, here {some(names)}", found[0][0])


RULES = (
    Problem(
        "chart/keyword-ignored",
        target=CHART,
        severity=WARNING,
        fails=Fails.SILENT,
        title="the schema has a keyword of another draft than the one that Helm uses for it",
        why="Helm ignores a keyword of another draft, so it accepts values that the keyword should refuse",
        fix="set $schema to draft 2020-12, or use the keywords of the draft in $schema",
        source="https://json-schema.org/specification-links",
        check=_keywords,
    ),
    Problem(
        "chart/format-not-judged",
        target=CHART,
        severity=INFO,
        fails=Fails.SILENT,
        title="the schema has a format that Helm does not check",
        why="Helm checks format up to draft 7; in later drafts, and without $schema, it is only an annotation",
        fix="write a pattern, or set $schema to draft 7",
        source="https://json-schema.org/understanding-json-schema/reference/type#format",
        check=_formats,
    ),
)
