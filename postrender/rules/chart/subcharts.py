"""Schemas and values do not stand in the way of charts within charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender.finding import ERROR, WARNING, Finding
from postrender.manifests import chart_files
from postrender.manifests.pods import sequence
from postrender.rules.chart.schema.jsonschemas import entry, lets_in, resolver
from postrender.rules.rule import CHART, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.errors import Location
    from postrender.manifests.chart_files import Chart
    from postrender.types import Json
    from postrender.yaml.reader import Node

    # The key below which a chart has its values, what Chart.yaml says of it, and the chart where it lies there.
    Below = tuple[str, dict[str, Json], Chart | None]


def _below(chart: Chart) -> list[Below]:
    """Return the charts below one; what Chart.yaml does not list is rendered all the same."""
    lying = {str(each.meta.get("name")): each for _, each in chart.below()}
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
    for key, said, below in _below(chart):
        if chart.schema and _refuses(chart.schema, key):
            what = f"the schema does not list {key}, where Helm puts the values of the chart of that name"
            yield Finding(what, _closed_at(chart.schema))
        if below and below.schema:
            switches = [path.strip().partition(".") for path in str(said.get("condition") or "").split(",")]
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
    Rule(
        "chart/schema-without-global",
        target=CHART,
        severity=WARNING,
        title="the schema refuses global",
        why="Helm puts global into the values of each chart that is a part of another: this one cannot be a part",
        fix="list global among the properties of the schema, as an object",
        source="https://helm.sh/docs/chart_template_guide/subcharts_and_globals/",
        fact="helm/schema-of-parts",
        check=_without_global,
    ),
    Rule(
        "chart/schema-refuses-subchart",
        target=CHART,
        severity=ERROR,
        title="a schema refuses what Helm adds for the charts below",
        why="Helm adds the values of each chart below, a library too, and global: the schema refuses to render",
        fix="list the key among the properties of the schema, as an object; a switch as a boolean",
        source="https://helm.sh/docs/topics/charts/#schema-files",
        fact="helm/schema-of-parts",
        check=_refuse_subcharts,
    ),
    Rule(
        "chart/null-for-subchart",
        target=CHART,
        severity=WARNING,
        title="a null of values.yaml is for a default of a chart below",
        why="Helm 3 takes the default away, and Helm 4 keeps it: the two render different objects",
        fix="set a value that means nothing there, such as an empty text or list",
        source="https://helm.sh/docs/chart_template_guide/values_files/#deleting-a-default-key",
        fact="helm/null-for-a-part",
        check=_nulls,
    ),
)
