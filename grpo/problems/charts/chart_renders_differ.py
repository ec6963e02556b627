"""Two renders of a chart with the same values give the same objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.charts.templates import Templates
from grpo.problems.charts.wording import some
from postrender.errors import InputError, Location
from postrender.finding import WARNING, Finding
from postrender.problem import CHART, Fails, Problem
from postrender.values import mutations
from postrender.yaml import reader, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart
    from postrender.yaml.reader import Node

    # What identifies a document in both renders: its template and its number among the template's documents.
    Key = tuple[str, int]
    Path = tuple[str | int, ...]

# After a longer path, further paths are only counted.
_LONG: Final = 40


def check(chart: Chart) -> Iterator[Finding]:
    """Compare document by document; show only the paths of values, because the values may be secrets."""
    if len(set(chart.renders)) < 2:
        return
    templates = Templates(chart)
    renders = [dict(_documents(text, name)) for text, name in zip(chart.renders, _names(chart), strict=False)]
    for source, number in dict.fromkeys(key for render in renders for key in render):
        found = [render[source, number] for render in renders if (source, number) in render]
        if len(found) == 1:
            what = f"{_title(found[0], ())} is in only one of two renders"
            yield _finding(chart, templates, source, what, "", [found[0].at(1)])
        elif found[0].text != found[1].text:
            yield from _compared(chart, templates, source, *found)


def _names(chart: Chart) -> tuple[str, str]:
    return f"<{chart.name}>", f"<{chart.name}, once more>"


class _Document:
    """One document of a render, with the places of its values."""

    def __init__(self, render: str, document: stream.Document) -> None:
        self.text = document.text()
        self._render = render
        self._line = document.line
        self.source = document.source

    def at(self, line: int) -> Location:
        """Return the place of one of the document's lines in the render."""
        return Location(self._render, self._line + line - 1)

    def root(self) -> Node | None:
        """Parse the document; return None if it is not valid YAML, which the manifest check reports."""
        try:
            roots = reader.parse(self.text.encode("utf-8"), self._render)
        except InputError:
            return None
        return roots[0] if roots else None


def _documents(text: str, name: str) -> Iterator[tuple[Key, _Document]]:
    count: dict[str, int] = {}
    for document in stream.split(text.encode("utf-8")):
        count[document.source] = count.get(document.source, 0) + 1
        yield (document.source, count[document.source]), _Document(name, document)


def _compared(chart: Chart, templates: Templates, source: str, one: _Document, other: _Document) -> Iterator[Finding]:
    before, after = one.root(), other.root()
    found = [*_differences(before, after, ())] if before and after else []
    # Comments and the order of keys may differ: the object is the same to Kubernetes.
    if found:
        first, left, right = found[0]
        differs = "differs" if len(found) == 1 else "differ"
        names = [mutations.dotted(path) for path, _, _ in found]
        paths = some(names, 1 if len(names[0]) > _LONG else 3)
        what = f"{_title(one, first)}: {paths} {differs} between two renders"
        places = [one.at(left.key_at.line), other.at(right.key_at.line)]
        yield _finding(chart, templates, source, what, str(first[-1]) if first else "", places)


def _finding(chart: Chart, templates: Templates, source: str, what: str, key: str, places: list[Location]) -> Finding:
    rendered = [(place, "as it was rendered") for place in places]
    cause = templates.cause(source, key)
    if cause is None:
        # A rendered line may contain a secret; the template does not.
        return Finding(what, chart.at(source.partition("/")[2]), also=rendered)
    function, led, at = cause
    also = [(at, f"calls {function}")] if led != at else []
    return Finding(f"{what}, because of {function}", led, also=[*also, *rendered])


def _title(document: _Document, path: Path) -> str:
    """Return an object's kind and name, or only its kind if the name differs."""
    root = document.root()
    item = root.plain() if root else None
    if not isinstance(item, dict):
        return document.source
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) and path != ("metadata", "name") else ""
    return f"{item.get('kind')} {name or ''}".strip()


def _differences(one: Node, other: Node, path: Path) -> Iterator[tuple[Path, Node, Node]]:
    """Yield the topmost paths at which two trees differ, an object's name first."""
    if isinstance(one.value, dict) and isinstance(other.value, dict):
        for key in sorted({*one.value, *other.value}, key=lambda key: (key != "metadata", key != "name", key)):
            if key in one.value and key in other.value:
                yield from _differences(one.value[key], other.value[key], (*path, key))
            else:
                yield (*path, key), one.value.get(key, one), other.value.get(key, other)
    elif isinstance(one.value, list) and isinstance(other.value, list) and len(one.value) == len(other.value):
        for number, (left, right) in enumerate(zip(one.value, other.value, strict=True)):
            yield from _differences(left, right, (*path, number))
    elif one.plain() != other.plain():
        yield path, one, other


RULE = Problem(
    "chart/renders-differ",
    target=CHART,
    severity=WARNING,
    fails=Fails.LATER,
    title="two renders of the chart differ",
    why="each upgrade, and each sync of Argo CD, changes the object: pods restart, or a password changes",
    fix="take it from the values, or from an existing Secret; sort the results of the functions keys and values",
    source="https://argo-cd.readthedocs.io/en/stable/user-guide/helm/#random-data",
    check=check,
)
