"""The same chart with the same values renders to the same objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.errors import InputError, Location
from postrender.finding import WARNING, Finding
from postrender.rules.chart.templates import Templates
from postrender.rules.chart.wording import some
from postrender.rules.rule import CHART, Rule
from postrender.values import mutations
from postrender.yaml import reader, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.chart_files import Chart
    from postrender.yaml.reader import Node

    # By what a document is known in both renders: its template, and which one of this it is.
    Key = tuple[str, int]
    Path = tuple[str | int, ...]

# Behind a path of more characters others are counted only.
_LONG: Final = 40


def check(chart: Chart) -> Iterator[Finding]:
    """Compare document by document; values are told by their paths only, as they may be secrets."""
    if len(set(chart.renders)) < 2:
        return
    templates = Templates(chart)
    renders = [dict(_documents(text, name)) for text, name in zip(chart.renders, _names(chart), strict=False)]
    for source, number in dict.fromkeys(key for render in renders for key in render):
        found = [render[source, number] for render in renders if (source, number) in render]
        if len(found) == 1:
            what = f"{_title(found[0], ())} is in one of two renders only"
            yield _said(chart, templates, source, what, "", [found[0].at(1)])
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
        """Return where a line of the document is in the render."""
        return Location(self._render, self._line + line - 1)

    def root(self) -> Node | None:
        """Read it; None where it is no YAML, which is said where the manifests are judged."""
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
    # Nothing is found where a comment differs, or the order of keys: to Kubernetes the object is the same.
    if found:
        first, left, right = found[0]
        differs = "differs" if len(found) == 1 else "differ"
        names = [mutations.dotted(path) for path, _, _ in found]
        paths = some(names, 1 if len(names[0]) > _LONG else 3)
        what = f"{_title(one, first)}: {paths} {differs} between two renders"
        places = [one.at(left.key_at.line), other.at(right.key_at.line)]
        yield _said(chart, templates, source, what, str(first[-1]) if first else "", places)


def _said(chart: Chart, templates: Templates, source: str, what: str, key: str, places: list[Location]) -> Finding:
    rendered = [(place, "as it was rendered") for place in places]
    cause = templates.cause(source, key)
    if cause is None:
        # A line of what was rendered may be a secret; the template as a whole is none.
        return Finding(what, chart.at(source.partition("/")[2]), also=rendered)
    function, led, at = cause
    also = [(at, f"calls {function}")] if led != at else []
    return Finding(f"{what}, because of {function}", led, also=[*also, *rendered])


def _title(document: _Document, path: Path) -> str:
    """Return kind and name, or the kind alone where the name is what differs."""
    root = document.root()
    item = root.plain() if root else None
    if not isinstance(item, dict):
        return document.source
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) and path != ("metadata", "name") else ""
    return f"{item.get('kind')} {name or ''}".strip()


def _differences(one: Node, other: Node, path: Path) -> Iterator[tuple[Path, Node, Node]]:
    """Yield the highest paths at which two trees differ, the name of an object first."""
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


RULE = Rule(
    "chart/renders-differ",
    target=CHART,
    severity=WARNING,
    title="two renders of the chart differ",
    why="each upgrade, and each sync of Argo CD, changes the object: pods restart, or a password is another one",
    fix="take it from the values, or from a Secret by its name; sort what keys and values return",
    source="https://argo-cd.readthedocs.io/en/stable/user-guide/helm/#random-data",
    fact="gke/R25 helm/two-renders-differ",
    check=check,
)
