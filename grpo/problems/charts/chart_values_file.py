"""Helm reads values.yaml as its author expects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.manifests import chart_files
from postrender.errors import InputError
from postrender.finding import ERROR, WARNING, Finding
from postrender.problem import CHART, Fails, Problem
from postrender.yaml import reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart
    from postrender.yaml.reader import Node

_VERSION: Final = re.compile(r"(?:^|[a-z_-])(?:tag|version|revision|commit|sha)$", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[^\s,\]}#]+")
# Go prints larger numbers with an exponent.
_EXPONENT_FROM: Final = 1e6


def _misread(chart: Chart) -> Iterator[Finding]:
    try:
        reader.values_from_bytes(chart.files.get(chart_files.VALUES, b""), chart.place(chart_files.VALUES))
    except InputError as error:
        yield Finding(error.message, error.at or chart.at(chart_files.VALUES))


def _nodes(node: Node | None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    if node and isinstance(node.value, dict):
        for key, each in node.value.items():
            yield (*path, key), each
            yield from _nodes(each, (*path, key))
    elif node and isinstance(node.value, list):
        for number, each in enumerate(node.value):
            yield from _nodes(each, (*path, str(number)))


def _boolean_keys(chart: Chart) -> Iterator[Finding]:
    for path, node in _nodes(chart.values):
        if node.spelled:
            yield Finding(f'Helm reads the key {node.spelled} as "{path[-1]}"', node.key_at)


def _versions(chart: Chart) -> Iterator[Finding]:
    for file, root in ((chart_files.VALUES, chart.values), (chart_files.META, chart.node(chart_files.META))):
        lines = chart.text(file).splitlines()
        for path, node in _nodes(root):
            if type(node.value) not in (int, float) or not _VERSION.search(path[-1]):
                continue
            written = _PLAIN.match(lines[node.at.line - 1], node.at.col - 1)
            # Helm prints a number of Chart.yaml without an exponent.
            printed = _printed(float(node.value), file == chart_files.META)  # type: ignore[arg-type]
            if written and written[0] != printed:
                yield Finding(f"{'.'.join(path)} is the number {printed} to Helm, not the text {written[0]}", node.at)


def _printed(number: float, whole: bool) -> str:
    if number.is_integer() and (whole or abs(number) < _EXPONENT_FROM):
        return str(int(number))
    text = repr(number)
    if abs(number) < _EXPONENT_FROM or "e" in text:
        return text
    digits = text.removesuffix(".0").lstrip("-")
    exponent = len(digits.partition(".")[0]) - 1
    mantissa = digits.replace(".", "").rstrip("0")
    sign = "-" if number < 0 else ""
    return f"{sign}{mantissa[0]}{'.' if mantissa[1:] else ''}{mantissa[1:]}e+{exponent:02}"


RULES = (
    Problem(
        "chart/values-misread",
        target=CHART,
        severity=ERROR,
        fails=Fails.SILENT,
        title="YAML parsers disagree on values.yaml",
        why="Helm reads something else than expected, or Helm 3 reads something else than Helm 4",
        fix="write each key once, in one document, without tags and directives",
        source="https://yaml.org/spec/1.2.2/#mapping",
        check=_misread,
    ),
    Problem(
        "chart/boolean-key",
        target=CHART,
        severity=ERROR,
        fails=Fails.SILENT,
        title="Helm reads a key of values.yaml as true or false",
        why='no template finds the key under its name, and the map that contains it has "true" or "false" instead',
        fix="write the key in quotes",
        source="https://yaml.org/type/bool.html",
        check=_boolean_keys,
    ),
    Problem(
        "chart/version-is-a-number",
        target=CHART,
        severity=WARNING,
        fails=Fails.AT_START,
        title="a version or a tag is a number that Helm prints in another form",
        why="YAML reads a number, and Helm prints it in another form: 1.10 becomes 1.1, 20000000 becomes 2e+07",
        fix="write it in quotes",
        source="https://helm.sh/docs/chart_best_practices/values/#make-types-clear",
        check=_versions,
    ),
)
