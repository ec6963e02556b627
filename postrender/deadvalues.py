"""Find values that change nothing: each leaf is changed, the chart rendered again, and the two outputs compared."""

from __future__ import annotations

import copy
import json
import os
import re
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from postrender import tokens, values, yamlio
from postrender.errors import InputError, RenderError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from postrender.helm import Engine
    from postrender.location import Location
    from postrender.plain import Plain
    from postrender.yamlio import Node

    Path = tuple[str | int, ...]

_OF_SCHEMA = "meet the specifications of the schema"
# How a schema's refusal lists the values that it takes.
_OFFERED = re.compile(r"value must be one of ((?:'[^']*'(?:, )?)+)")
# Tried after what is like the value itself: a template may want a number in a text, or a map with a name.
_TEXTS = ("x", "1", "true", "1Gi", "/x")
_ENTRIES: tuple[Plain, ...] = ({"x": "y"}, {"x": {"name": "y"}})
_ITEMS: tuple[Plain, ...] = (["x"], [{"name": "x"}])


@dataclass(frozen=True)
class Leaf:
    """One value that was tried: its path, its value, where it stands, and why it is listed."""

    path: str
    value: Plain
    at: Location
    why: str


@dataclass(frozen=True)
class Result:
    """What was found: `tried` leaves, those that move `nothing`, those of which no other value is `valid`."""

    tried: int
    nothing: tuple[Leaf, ...]
    undecided: tuple[Leaf, ...]


def find(
    engine: Engine, chart: str, files: Sequence[str], *, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Result:
    """Try every leaf of the chart's values.yaml and of the files, later files over earlier ones.

    `progress` is told how many leaves are done, of how many. Raises RenderError where the unchanged values do not
    render, InputError or UnreadableError for files that cannot be read.
    """
    names = [*files]
    merged = values.merge([_defaults(chart), *map(yamlio.load_values, files)], [f"{chart}/values.yaml", *names])
    tree = merged.as_helm_merges()
    before = _output(engine, chart, files, None)
    leaves = list(_leaves(merged.root))
    nothing: list[Leaf] = []
    undecided: list[Leaf] = []
    for number, (path, node) in enumerate(leaves, 1):
        verdict = _verdict(engine, chart, files, tree, path, before)
        leaf = Leaf(_dotted(path), node.plain(), node.key_at, verdict)
        if verdict:
            (nothing if verdict == "moves nothing" else undecided).append(leaf)
        progress(number, len(leaves))
    return Result(len(leaves), tuple(nothing), tuple(undecided))


def _defaults(chart: str) -> Node:
    """Read values.yaml of a chart's folder or package."""
    if os.path.isdir(chart):
        return yamlio.load_values(os.path.join(chart, "values.yaml"))
    try:
        with tarfile.open(chart) as archive:
            member = next(name for name in archive.getnames() if re.fullmatch(r"[^/]+/values\.yaml", name))
            stream = archive.extractfile(member)
            data = stream.read() if stream else b""
    except (OSError, tarfile.TarError, StopIteration) as error:
        fix = "give the folder of a chart, or its package"
        raise UnreadableError(f"{chart}: no chart with a values.yaml", fix=fix) from error
    return yamlio.values_from_bytes(data, f"{chart}/values.yaml")


def _output(
    engine: Engine, chart: str, files: Sequence[str], change: Mapping[str, Any] | None
) -> tuple[str, str | None]:
    rendered = engine.render(chart, files, values=change)
    return rendered.manifest, rendered.notes


def _leaves(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every scalar, and every empty map or list, with its path."""
    if isinstance(node.value, dict) and node.value:
        for key, child in node.value.items():
            yield from _leaves(child, (*path, key))
    elif isinstance(node.value, list) and node.value:
        for position, child in enumerate(node.value):
            yield from _leaves(child, (*path, position))
    elif path:
        yield path, node


def _verdict(
    engine: Engine,
    chart: str,
    files: Sequence[str],
    tree: Mapping[str, Any],
    path: Path,
    before: tuple[str, str | None],
) -> str:
    """Return an empty text for a value that moves something, or why it is listed."""
    now = _at(tree, path)
    queue = _candidates(now)
    offered: list[Plain] = []
    unmoved = False
    while queue:
        try:
            if _output(engine, chart, files, _changed(tree, path, queue.pop(0))) != before:
                return ""
            unmoved = True
        except RenderError as error:
            if _OF_SCHEMA not in error.message:
                # The chart itself looked at the value.
                return ""
            listed = _OFFERED.search(error.message)
            if listed and not offered:
                offered = [text for text in re.findall("'([^']*)'", listed[1]) if text != now]
                queue = offered[:]
    return "moves nothing" if unmoved else "no other value was accepted"


def _candidates(value: Plain) -> list[Plain]:
    """Return other values, the likeliest to be accepted first."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1, value - 1, value * 2]
    if isinstance(value, str):
        own = [value + "1" if value[-1:].isdigit() else value + "x"] if value else []
        return [*own, *(text for text in _TEXTS if text != value)]
    if isinstance(value, dict):
        return list(_ENTRIES)
    return list(_ITEMS) if isinstance(value, list) else ["x", 1, True, *_ENTRIES, *_ITEMS]


def _at(tree: Plain, path: Path) -> Plain:
    for part in path:
        tree = tree[part]
    return tree


def _changed(tree: Mapping[str, Any], path: Path, value: Plain) -> dict[str, Any]:
    """Return the values that change one leaf; a list is given whole, because Helm replaces lists."""
    keys = next((path[:depth] for depth, part in enumerate(path) if isinstance(part, int)), path)
    if keys != path:
        whole = copy.deepcopy(_at(tree, keys))
        inside = whole
        for part in path[len(keys) : -1]:
            inside = inside[part]
        inside[path[-1]] = value
        value = whole
    for key in reversed(keys):
        value = {key: value}
    if not isinstance(value, dict):
        raise InputError("expected a path of at least one key")
    return value


def _dotted(path: Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def as_text(result: Result) -> str:
    """Write the result for people: one line a value, the place first."""
    lines = [f"{leaf.at}: {leaf.path} = {json.dumps(leaf.value, ensure_ascii=False)}" for leaf in result.nothing]
    lines += [f"{leaf.at}: {leaf.path}: {leaf.why}, so it was not judged" for leaf in result.undecided]
    count = len(result.nothing)
    lines.append(f"{count} of {result.tried} values move{'s' if count == 1 else ''} nothing with these files")
    return tokens.mask("\n".join(lines) + "\n")


def as_json(result: Result) -> str:
    """Write the result for programs."""
    listed = {"nothing": result.nothing, "undecided": result.undecided}
    entries = {
        name: [
            {"path": leaf.path, "value": leaf.value, "file": leaf.at.file, "line": leaf.at.line, "why": leaf.why}
            for leaf in leaves
        ]
        for name, leaves in listed.items()
    }
    return tokens.mask(json.dumps({"tried": result.tried, **entries}, indent=2, ensure_ascii=False) + "\n")
