"""No template prints a number from the values into text in exponent notation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.charts import templates
from postrender.errors import InputError, Location
from postrender.finding import WARNING, Finding
from postrender.problem import CHART, Fails, Problem
from postrender.yaml import reader, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart
    from postrender.yaml.reader import Node

_PRINTED: Final = re.compile(r"(?<![\w.+/-])\d(?:\.\d+)?e\+\d\d(?![\w.+/=])")
_SECRET: Final = re.compile(r"^kind: *Secret\b", re.MULTILINE)


def check(chart: Chart) -> Iterator[Finding]:
    """Search rendered texts for large numbers as Go prints them; a value that is only a number remains a number."""
    for document in stream.split(chart.renders[0].encode("utf-8") if chart.renders else b""):
        text, path = document.text(), document.source.partition("/")[2]
        if _PRINTED.search(text):
            lines = text.split("\n")
            for line, col in _places(text, chart.text(path)):
                at = Location(f"<{chart.name}>", document.line + line - 1, col)
                yield _finding(chart, path, at, lines[line - 1], secret=bool(_SECRET.search(text)))


def _places(text: str, template: str) -> Iterator[tuple[int, int]]:
    """Yield line and column of each such number that is not in the template itself."""
    lines = text.split("\n")
    for node in _texts(text):
        for found in _PRINTED.finditer(str(node.value)):
            if found[0] not in template:
                first = node.at.line - 1
                line = next((number for number, line in enumerate(lines[first:], first) if found[0] in line), first)
                yield line + 1, lines[line].find(found[0]) + 1


def _texts(text: str) -> Iterator[Node]:
    try:
        queue = reader.parse(text.encode("utf-8"), "")
    except InputError:
        # The check of the manifests reports it.
        return
    while queue:
        node = queue.pop()
        queue += node.children()
        if isinstance(node.value, str):
            yield node


def _finding(chart: Chart, path: str, at: Location, line: str, *, secret: bool) -> Finding:
    what = "a large number is printed with an exponent"
    if number := templates.line_of(chart.text(path), line):
        col = chart.text(path).split("\n")[number - 1].find("{{") + 1
        return Finding(what, chart.at(path, number, col), also=[(at, "as it was rendered")], secret=secret)
    also = [(chart.at(path), "is the template")] if path in chart.files else []
    return Finding(what, at, also=also, secret=secret)


RULE = Problem(
    "chart/number-in-exponent",
    target=CHART,
    severity=WARNING,
    fails=Fails.AT_START,
    title="a template prints a large number with an exponent",
    why="Helm keeps numbers as floats: 1000000 becomes 1e+06 in a text, which most programs refuse as a whole number",
    fix="write {{ int64 .Values.KEY }} in the template, or quote the number in the values",
    source="https://helm.sh/docs/chart_best_practices/values/#make-types-clear",
    check=check,
)
