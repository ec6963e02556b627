"""The schema rejects a misspelt key instead of ignoring it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.manifests import chart_files
from grpo.problems.charts.jsonschemas import entry, is_closed, resolver
from grpo.problems.charts.wording import some
from postrender.finding import WARNING, Finding
from postrender.problem import CHART, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart
    from postrender.yaml.reader import Node


def _no_schema(chart: Chart) -> Iterator[Finding]:
    values = chart.values
    if chart.is_library or chart_files.SCHEMA in chart.files or not values or not values.value:
        return
    yield Finding(f"there is no {chart_files.SCHEMA} beside values.yaml", chart.at(chart_files.VALUES, 1, 1))


def _loose(chart: Chart) -> Iterator[Finding]:
    if chart.is_library or not chart.schema:
        return
    levels = _levels(chart.schema)
    found = [(path, node) for path, node in levels if not _refuses(node)]
    if found:
        named = some([".".join(path) or "the top level" for path, _ in found])
        levels_take = "level takes keys that it does" if len(levels) == 1 else "levels take keys that they do"
        what = f"{len(found)} of {len(levels)} {levels_take} not list: {named}"
        yield Finding(what, found[0][1].key_at)


def _refuses(node: Node) -> bool:
    parts = entry(node, "allOf")
    return is_closed(node) or any(map(is_closed, parts.children() if parts else ()))


def _levels(root: Node) -> list[tuple[tuple[str, ...], Node]]:
    """Return the schemas that list properties, each once, with the first path in the values that leads to it.

    Conditions and subschemas such as those of allOf list only some properties, so they are skipped.
    """
    resolve = resolver(root)
    seen: set[int] = set()
    levels = []
    queue: list[tuple[tuple[str, ...], Node]] = [((), root)]
    while queue:
        path, node = queue.pop(0)
        node = resolve(node)
        if id(node) in seen:
            continue
        seen.add(id(node))
        properties = entry(node, "properties")
        if properties and properties.value:
            levels.append((path, node))
        queue += _below(path, node, properties)
    return levels


def _below(path: tuple[str, ...], node: Node, properties: Node | None) -> list[tuple[tuple[str, ...], Node]]:
    found = []
    for each in (properties, entry(node, "patternProperties")):
        if each and isinstance(each.value, dict):
            found += [((*path, name if each is properties else "*"), below) for name, below in each.value.items()]
    for key in ("additionalProperties", "items"):
        if below := entry(node, key):
            found.append(((*path, "*"), below))
    if not properties:
        for key in ("anyOf", "oneOf"):
            several = entry(node, key)
            found += [(path, below) for below in (several.children() if several else ())]
    return found


RULES = (
    Problem(
        "chart/no-schema",
        target=CHART,
        severity=WARNING,
        fails=Fails.SILENT,
        title="the chart has no schema for its values",
        why="without a schema Helm ignores a misspelt key or a wrong type, and the default is used",
        fix="write values.schema.json; grpo dead-values shows what no template reads",
        source="https://helm.sh/docs/topics/charts/#schema-files",
        check=_no_schema,
    ),
    Problem(
        "chart/loose-schema",
        target=CHART,
        severity=WARNING,
        fails=Fails.SILENT,
        title="the schema accepts keys that it does not list",
        why="Helm ignores a misspelt key there, and uses the default",
        fix="write additionalProperties: false beside properties, or a schema for all other keys",
        source="https://json-schema.org/understanding-json-schema/reference/object#additionalproperties",
        check=_loose,
    ),
)
