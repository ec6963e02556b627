"""Find values that have no effect: change each leaf, render the chart again, and compare the two outputs."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grpo.helm.engines import Engine
from postrender import masking, paths
from postrender.errors import Location, RenderError, UnreadableError
from postrender.types import Json, Path
from postrender.values import merge, mutations
from postrender.yaml import reader
from postrender.yaml.reader import Node

_DEAD = "moves nothing"
# The section of our charts that the rules read, and no chart.
_OF_RULES = "checks"
# A rendered manifest and its notes.
_Output = tuple[str, str | None]
# The valid values in a schema's refusal.
_OFFERED = re.compile(r"value must be one of ((?:'[^']*'(?:, )?)+)")
# The text names at most this many of the values that wait for one switch.
_SHOWN = 3


@dataclass(frozen=True)
class Leaf:
    """A value that was tested: its path, its value, its place, and why it is listed.

    `switch` is a nearby boolean found to be the reason: when that boolean is inverted, the value has an effect.
    """

    path: str
    value: Json
    at: Location
    why: str
    switch: Leaf | None = None


@dataclass(frozen=True)
class DeadValues:
    """The result: the number of `tried` leaves, those that change `nothing`, and those that were not judged.

    `charts` are the names of the rendered charts: the one that was asked about, and its siblings. `defaults` is the
    chart's own file of values.
    """

    tried: int
    nothing: tuple[Leaf, ...]
    undecided: tuple[Leaf, ...]
    charts: tuple[str, ...]
    defaults: str = ""

    @property
    def faults(self) -> tuple[Leaf, ...]:
        """Return those that are a mistake: a default of the chart may wait for a switch that is off."""
        return tuple(leaf for leaf in self.nothing if not (leaf.switch and leaf.at.file == self.defaults))


@dataclass(frozen=True)
class _Charts:
    """The charts that get the same files, with a `change`: `tree` is the merged values, `before` each chart's output.

    The first chart is the one under test. The others are its siblings, if it is one of our charts.
    """

    engine: Engine
    files: Sequence[str]
    tree: Mapping[str, Any]
    change: Mapping[str, Any]
    before: Mapping[str, _Output]

    def _render(self, chart: str, change: Mapping[str, Any]) -> _Output:
        rendered = self.engine.render(chart, self.files, values=merge.overlay(self.change, change))
        return rendered.manifest, rendered.notes

    def moves(self, change: Mapping[str, Any]) -> bool:
        """Render with one more change, chart by chart, until a chart's output differs."""
        return any(self._render(chart, change) != before for chart, before in self.before.items())

    def switched(self, path: Path) -> _Charts | None:
        """Return the charts with a boolean inverted, or None if Helm rejects the inverted value."""
        change = mutations.changed(self.tree, path, not mutations.at(self.tree, path))
        try:
            before = {chart: self._render(chart, change) for chart in self.before}
        except RenderError:
            return None
        tree, change = merge.overlay(self.tree, change), merge.overlay(self.change, change)
        return replace(self, tree=tree, change=change, before=before)

    def verdict(self, path: Path) -> str:
        """Return an empty text for a value that changes the output, or else why the value is listed."""
        now = mutations.at(self.tree, path)
        queue = mutations.candidates(now)
        offered: list[Json] = []
        unmoved = False
        while queue:
            try:
                if self.moves(mutations.changed(self.tree, path, queue.pop(0))):
                    return ""
                unmoved = True
            except RenderError as error:
                if not error.is_of_schema:
                    # The chart itself has checked the value, so it has an effect.
                    return ""
                listed = _OFFERED.search(error.message)
                if listed and not offered:
                    offered = [text for text in re.findall("'([^']*)'", listed[1]) if text != now]
                    queue = offered[:]
        return _DEAD if unmoved else "no other value was accepted"


class _Switches:
    """The booleans that change the output, each with the charts as they render when it is inverted."""

    def __init__(self, charts: _Charts, leaves: Sequence[tuple[Path, Node]]) -> None:
        self._charts = charts
        self._leaves = dict(leaves)
        self.verdicts = {path: charts.verdict(path) for path, node in leaves if isinstance(node.value, bool)}
        self._turned: dict[Path, _Charts | None] = {}

    def of(self, path: Path) -> Leaf | None:
        """Find the nearest boolean beside or above a value without effect whose inversion gives the value an effect.

        A boolean that changes nothing itself is skipped: if it switched anything on, its own change would show.
        """
        for depth in range(len(path), 0, -1):
            for other, verdict in self.verdicts.items():
                if len(other) == depth and other[:-1] == path[: depth - 1] and not verdict:
                    if other not in self._turned:
                        self._turned[other] = self._charts.switched(other)
                    turned = self._turned[other]
                    if turned and not turned.verdict(path):
                        node = self._leaves[other]
                        return Leaf(mutations.dotted(other), node.plain(), node.key_at, "")
        return None


def find(
    engine: Engine, chart: str, files: Sequence[str], *, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> DeadValues:
    """Test every leaf of the chart's values.yaml and of the files, where later files override earlier ones.

    All of our charts get the same files, so a value of one of them is dead only if it changes none of the four. If
    another of these charts does not render with the files, values that it may read are not judged. `progress` is called
    with the number of leaves done and their total. Raises RenderError if the unchanged values do not render, and
    InputError or UnreadableError if a file cannot be read.
    """
    names = [*files]
    merged = merge.merge([_defaults(chart), *map(reader.load_values, files)], [f"{chart}/values.yaml", *names])
    try:
        rendered = engine.render(chart, files)
    except RenderError as error:
        raise RenderError(error.message, fix="give values files with which the chart renders, each with -f") from error
    siblings = paths.siblings(chart)
    outputs = {each: _output(engine, each, files) for each in siblings}
    unknown = [os.path.basename(each) for each, output in outputs.items() if output is None]
    before = {chart: (rendered.manifest, rendered.notes)}
    before |= {each: output for each, output in outputs.items() if output}
    charts = _Charts(engine, files, merged.as_helm_merges(), {}, before)
    leaves = [each for each in mutations.leaves(merged.root) if not (siblings and each[0][0] == _OF_RULES)]
    switches = _Switches(charts, leaves)
    listed: list[Leaf] = []
    for number, (path, node) in enumerate(leaves, 1):
        why = switches.verdicts[path] if path in switches.verdicts else charts.verdict(path)
        switch = switches.of(path) if why == _DEAD else None
        if why == _DEAD and unknown and not switch:
            why = f"{', '.join(unknown)} may read it, but does not render with these files"
        if why:
            listed.append(Leaf(mutations.dotted(path), node.plain(), node.key_at, why, switch))
        progress(number, len(leaves))
    nothing = tuple(leaf for leaf in listed if leaf.why == _DEAD)
    undecided = tuple(leaf for leaf in listed if leaf.why != _DEAD)
    defaults = f"{chart}/values.yaml"
    return DeadValues(len(leaves), nothing, undecided, tuple(map(os.path.basename, before)), defaults)


def _output(engine: Engine, chart: str, files: Sequence[str]) -> _Output | None:
    """Render a sibling; return None if it rejects the files."""
    try:
        rendered = engine.render(chart, files)
    except RenderError:
        return None
    return rendered.manifest, rendered.notes


def _defaults(chart: str) -> Node:
    """Read values.yaml from a chart's folder or package."""
    if os.path.isdir(chart):
        return reader.load_values(f"{chart}/values.yaml")
    try:
        with tarfile.open(chart) as archive:
            member = next(name for name in archive.getnames() if re.fullmatch(r"[^/]+/values\.yaml", name))
            stream = archive.extractfile(member)
            data = stream.read() if stream else b""
    except (OSError, tarfile.TarError, StopIteration) as error:
        fix = "give the folder of a chart, or its package"
        raise UnreadableError(f"{chart}: no chart with a values.yaml", fix=fix) from error
    return reader.values_from_bytes(data, f"{chart}/values.yaml")


def as_text(result: DeadValues) -> str:
    """Format the result as text: one line per value, with its place first; values with the same switch share a line."""
    lines = [": ".join(filter(None, row)) for row in rows(result)]
    return masking.text("\n".join(lines) + ("\n" if lines else "") + count(result))


def rows(result: DeadValues) -> list[tuple[str, str, str]]:
    """Return the result as rows of three columns: the place, the value, and a note, which may be empty."""
    waiting: dict[Leaf, list[Leaf]] = {}
    for leaf in result.nothing:
        if leaf.switch:
            waiting.setdefault(leaf.switch, []).append(leaf)
    listed = [(str(leaf.at), _set(leaf), "") for leaf in result.nothing if not leaf.switch]
    listed += [(str(switch.at), _set(switch), _because(leaves)) for switch, leaves in waiting.items()]
    return listed + [(str(leaf.at), leaf.path, f"{leaf.why}, so it was not judged") for leaf in result.undecided]


def count(result: DeadValues) -> str:
    """Return a line with the number of values that have no effect."""
    number = len(result.nothing)
    where = f", in none of {', '.join(result.charts)}" if len(result.charts) > 1 else ""
    return f"{number} of {result.tried} values move{'s' if number == 1 else ''} nothing with these files{where}\n"


def _set(leaf: Leaf) -> str:
    return f"{leaf.path} = {json.dumps(leaf.value, ensure_ascii=False)}"


def _because(leaves: Sequence[Leaf]) -> str:
    """Describe the values that depend on a switch: name a few and count the rest; the JSON output lists all of them."""
    names = ", ".join(leaf.path for leaf in leaves[:_SHOWN])
    rest = f" and {len(leaves) - _SHOWN} more" if len(leaves) > _SHOWN else ""
    many = "1 value moves" if len(leaves) == 1 else f"{len(leaves)} values move"
    return f"{many} nothing because of it: {names}{rest}"


def as_json(result: DeadValues) -> str:
    """Format the result as JSON; `switch` is the path of the boolean that a value depends on, or null."""
    listed = {"nothing": result.nothing, "undecided": result.undecided}
    entries = {name: [_entry(leaf) for leaf in leaves] for name, leaves in listed.items()}
    return json.dumps(masking.clean({"tried": result.tried, **entries}), indent=2, ensure_ascii=False) + "\n"


def _entry(leaf: Leaf) -> dict[str, Any]:
    place = {"file": leaf.at.file, "line": leaf.at.line}
    switch = leaf.switch.path if leaf.switch else None
    return {"path": leaf.path, "value": leaf.value, **place, "why": leaf.why, "switch": switch}
