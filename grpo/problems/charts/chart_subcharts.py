"""Schemas and values do not conflict with subcharts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.manifests import chart_files
from grpo.problems.charts.jsonschemas import entry, lets_in, resolver
from postrender.finding import ERROR, WARNING, Finding
from postrender.manifests.pods import sequence
from postrender.problem import CHART, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart
    from postrender.errors import Location
    from postrender.types import Json
    from postrender.yaml.reader import Node

    # The key of the subchart's values, its entry in Chart.yaml, and the chart if it is in charts/.
    Below = tuple[str, dict[str, Json], Chart | None]


def _below(chart: Chart) -> list[Below]:
    """Return a chart's subcharts, including those that Chart.yaml does not list, because Helm renders them too."""
    lying = {str(each.meta.get("name")): each for _, each in chart.subcharts()}
    listed = [each for each in sequence(chart.meta.get("dependencies")) if isinstance(each, dict)]
    named = {str(each.get("name")) for each in listed}
    found = [(str(each.get("alias") or each.get("name")), each, lying.get(str(each.get("name")))) for each in listed]
    return found + [(name, {}, each) for name, each in lying.items() if name not in named]


def _closed_at(schema: Node) -> Location:
    closed = entry(resolver(schema)(schema), "additionalProperties")
    return closed.key_at if closed else schema.at


def _refuses(schema: Node | None, key: str) -> bool:
    return schema is not None and not lets_in(schema, key, resolver(schema))


def _without_global(chart: Chart) -> Iterator[Finding]:
    if not chart.is_library and chart.schema and _refuses(chart.schema, "global"):
        yield Finding("the schema does not list global", _closed_at(chart.schema))


def _refuse_subcharts(chart: Chart) -> Iterator[Finding]:
    for key, reason, below in _below(chart):
        if chart.schema and _refuses(chart.schema, key):
            what = f"the schema does not list {key}, where Helm puts the values of the subchart"
            yield Finding(what, _closed_at(chart.schema))
        if below and below.schema:
            switches = [path.strip().partition(".") for path in str(reason.get("condition") or "").split(",")]
            for name in ("global", *(rest for top, _, rest in switches if top == key and rest and "." not in rest)):
                if _refuses(below.schema, name):
                    yield Finding(
                        f"the schema does not list {name}, which comes from {chart.name}", _closed_at(below.schema)
                    )


def _nulls(chart: Chart) -> Iterator[Finding]:
    for key, _, below in _below(chart):
        given = entry(chart.values, key)
        if given and below and below.values:
            for path, node in _deleted(given, below.values, (key,)):
                what = f"{'.'.join(path)} is null, and {below.place(chart_files.VALUES)} has a value"
                yield Finding(what, node.key_at)


def _deleted(given: Node, default: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    for name, node in given.value.items() if isinstance(given.value, dict) else ():
        other = entry(default, name)
        if other and node.value is None and other.value is not None:
            yield (*path, name), node
        elif other:
            yield from _deleted(node, other, (*path, name))


RULES = (
    Problem(
        "chart/schema-without-global",
        target=CHART,
        severity=WARNING,
        title="the schema refuses the key global",
        why="Helm adds global to the values of every subchart, so this chart cannot be a subchart",
        fix="list global among the properties of the schema, as an object",
        source="https://helm.sh/docs/chart_template_guide/subcharts_and_globals/",
        check=_without_global,
    ),
    Problem(
        "chart/schema-refuses-subchart",
        target=CHART,
        severity=ERROR,
        title="a schema refuses a key that Helm adds for subcharts",
        why="Helm adds global and the values of each subchart, even of a library: the schema refuses every render",
        fix="list the key among the properties of the schema, as an object; a switch as a boolean",
        source="https://helm.sh/docs/topics/charts/#schema-files",
        check=_refuse_subcharts,
    ),
    Problem(
        "chart/null-for-subchart",
        target=CHART,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a null in values.yaml overrides a default of a subchart",
        why="Helm 3 removes the default, and Helm 4 keeps it: they render different objects",
        fix="set a value without effect, such as an empty string or list",
        source="https://helm.sh/docs/chart_template_guide/values_files/#deleting-a-default-key",
        check=_nulls,
    ),
)
