"""Find values of job.config that an overlay of an earlier file covers: the chart lays job.configFor over all of them.

The order is the chart's (templates/_config.tpl): job.config, then the overlay of the framework's version, then that of
the accelerator. Nobody who writes a value after a recipe expects the recipe's to count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from postrender import secrets
from postrender.finding import Finding
from postrender.lint.messages import shown
from postrender.types import Json
from postrender.values.config import OVERRIDE, overlay_names
from postrender.values.merge import Values
from postrender.values.mutations import dotted
from postrender.yaml.reader import Node

Keys = tuple[str, ...]

_SHOWN_CHARACTERS = 60


def _is_same(one: Json, other: Json) -> bool:
    """Compare as JSON does, where true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@dataclass(frozen=True)
class _Cover:
    """Hold what an overlay has in the place of a value: `node` at the keys `path`, the value itself or one above it.

    `used` is the value that counts instead, None where the job runs without any.
    """

    name: str
    node: Node
    path: Keys
    used: Node | None


def findings(merged: Values) -> Iterator[Finding]:
    """Yield one finding for each covered value, at the value: there a person sees what does not count."""
    config = merged.node(("job", "config"))
    names = overlay_names(merged.as_helm_merges())
    overlays = [(name, node) for name in names if (node := merged.node(("job", "configFor", name)))]
    if not config or not isinstance(config.value, dict):
        return
    order = {file: number for number, file in enumerate(merged.files)}
    for path, leaf in _leaves(config):
        covers = [cover for name, overlay in overlays if (cover := _cover(name, overlay, path, leaf))]
        if covers and order[covers[-1].node.at.file] < order[leaf.at.file]:
            used = covers[-1].used
            if not used or not _is_same(leaf.plain(), used.plain()):
                yield _finding(path, leaf, covers[-1])


def _leaves(node: Node, path: Keys = ()) -> Iterator[tuple[Keys, Node]]:
    """Yield every scalar, list and empty map; a list counts as a whole, as the chart replaces it as a whole."""
    if isinstance(node.value, dict) and node.value:
        for key, child in node.value.items():
            yield from _leaves(child, (*path, key))
    else:
        yield path, node


def _cover(name: str, overlay: Node, path: Keys, leaf: Node) -> _Cover | None:
    """Return what an overlay has in the place of a value, None where it leaves the value alone."""
    node, replaced = overlay, None
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            # The overlay of a whole accelerator is a map, or the chart says so.
            return _Cover(name, node, path[:depth], None) if depth else None
        child = node.value.get(key)
        if not child:
            return replaced
        node = child
        if not replaced and _replaces(node):
            replaced = _Cover(name, node, path[: depth + 1], None)
    if leaf.value == {} and isinstance(node.value, dict):
        return None
    return _Cover(name, node, path, node)


def _replaces(node: Node) -> bool:
    marker = node.value.get(OVERRIDE) if isinstance(node.value, dict) else None
    return marker is not None and marker.value is True


def _finding(path: Keys, leaf: Node, cover: _Cover) -> Finding:
    overlay = dotted(("job", "configFor", cover.name))
    place = f"{cover.node.key_at.file}:{cover.node.key_at.line}"
    if cover.used:
        instead = f"with {_shown(cover.used.plain())}, which {overlay} says in {place}"
    else:
        above = dotted(("job", "config", *cover.path))
        instead = f"without it: {overlay}{dotted(('', *cover.path))} in {place} takes the place of all of {above}"
    is_version = cover.name.removeprefix("v")[:1].isdigit()
    return Finding(
        f"{dotted(('job', 'config', *path))} is {_shown(leaf.plain())} here, and the job runs {instead}",
        leaf.key_at,
        rule="values/covered-by-overlay",
        why=f"The chart merges job.config of all files first, then lays {overlay} over it, whichever file is later.",
        fix=f"write it under {overlay}" + (", as that version spells it" if is_version else ""),
    )


def _shown(value: Json) -> str:
    """Write a value for a message; a list with what is in it, as two of them are compared."""
    if not isinstance(value, list):
        return shown(value)

    text = secrets.mask(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
