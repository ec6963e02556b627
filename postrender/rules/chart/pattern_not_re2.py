"""Every pattern of a schema is one that Helm can read."""

from __future__ import annotations

from postrender.rules import ERROR, re2
from postrender.rules.chartfile import ChartRule, Said
from postrender.rules.jsonschemas import entry, named, subschemas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.chartfiles import Chart
    from postrender.errors import Location


def check(chart: Chart) -> Iterator[Said]:
    """Look at `pattern`, and at the keys of `patternProperties`."""
    if chart.schema:
        for _, node in subschemas(chart.schema):
            if pattern := entry(node, "pattern"):
                yield from _said(pattern.at, str(pattern.value))
            for key, each in named(entry(node, "patternProperties")).items():
                yield from _said(each.key_at, key)


def _said(at: Location, text: str) -> Iterator[Said]:
    if wrong := re2.refused(text):
        yield Said(at, f"the pattern has {wrong}")


RULE = ChartRule(
    "chart/pattern-not-re2",
    severity=ERROR,
    title="a pattern of the schema is one that Helm cannot read",
    why="Helm reads patterns as RE2; with one that it cannot read it refuses the whole schema, and so every install",
    fix="write it without; what must not match goes into not with a pattern of its own",
    source="https://github.com/google/re2/wiki/Syntax",
    check=check,
)
