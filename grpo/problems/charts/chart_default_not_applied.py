"""Each default in the schema matches what values.yaml sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.charts.jsonschemas import entry, resolver
from grpo.problems.charts.wording import some
from postrender.finding import INFO, Finding
from postrender.problem import CHART, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart
    from postrender.types import Json
    from postrender.yaml.reader import Node

# For a template as good as no value.
_NOTHING: Final[tuple[Json, ...]] = (None, False, "", [], {})


def check(chart: Chart) -> Iterator[Finding]:
    """Compare the schema's defaults along the maps in values.yaml."""
    if chart.is_library or not chart.schema or not chart.values:
        return
    found = [*_differ(chart.schema, chart.values, ())]
    if found:
        named = some([f"{path} ({'is another one there' if there else 'is not there'})" for _, path, there in found])
        many = "a default of the schema is" if len(found) == 1 else f"{len(found)} defaults of the schema are"
        yield Finding(f"{many} not in values.yaml: {named}", found[0][0].key_at)


def _differ(schema: Node, values: Node, path: tuple[str, ...]) -> Iterator[tuple[Node, str, bool]]:
    resolve = resolver(schema)
    queue = [(schema, values, path)]
    while queue:
        level, given, path = queue.pop(0)
        listed = entry(resolve(level), "properties")
        for name, below in listed.value.items() if listed and isinstance(listed.value, dict) else ():
            default, value = entry(below, "default") or entry(resolve(below), "default"), entry(given, name)
            here = (*path, name)
            if value and isinstance(value.value, dict):
                queue.append((below, value, here))
            elif default and _differs(default.plain(), value):
                yield default, ".".join(here), value is not None


def _differs(default: Json, value: Node | None) -> bool:
    if default in _NOTHING or isinstance(default, dict):
        return False
    return value is None or (value.value is not None and value.plain() != default)


RULE = Problem(
    "chart/default-not-applied",
    target=CHART,
    severity=INFO,
    fails=Fails.SILENT,
    title="a default of the schema is not in values.yaml, or has another value there",
    why="Helm never applies a default of a schema, so whoever relies on it there gets something else",
    fix="write the value into values.yaml, or correct the schema",
    source="https://json-schema.org/understanding-json-schema/reference/annotations",
    check=check,
)
