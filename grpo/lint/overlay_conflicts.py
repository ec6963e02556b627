"""Find values of job.config that an overlay in an earlier file overrides: the chart merges job.configFor last.

The chart's order (templates/_config.tpl) is: job.config, then the overlay for the framework's version, then the
accelerator's. A user who sets a value in a file after the recipe does not expect the recipe's value to win.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from grpo.lint.messages import format_value
from grpo.values.config import OVERRIDE, overlay_names
from postrender import masking
from postrender.finding import Finding
from postrender.types import Json
from postrender.values.merge import Values
from postrender.values.mutations import dotted
from postrender.yaml.reader import Node

Keys = tuple[str, ...]

_SHOWN_CHARACTERS = 60


def _is_same(one: Json, other: Json) -> bool:
    """Compare as JSON does, where true differs from 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@dataclass(frozen=True)
class _Cover:
    """What an overlay has in place of a value: `node` at the keys `path`, either the value or a section above it.

    `used` is the effective value, or None if the job runs without one.
    """

    name: str
    node: Node
    path: Keys
    used: Node | None


def findings(merged: Values) -> Iterator[Finding]:
    """Yield one finding for each overridden value, at the value's place."""
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
    """Yield every scalar, list and empty map; the chart replaces an entire list."""
    if isinstance(node.value, dict) and node.value:
        for key, child in node.value.items():
            yield from _leaves(child, (*path, key))
    else:
        yield path, node


def _cover(name: str, overlay: Node, path: Keys, leaf: Node) -> _Cover | None:
    """Return what an overlay has in place of a value, or None if it does not change the value."""
    node, replaced = overlay, None
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            # The chart itself refuses an overlay that is not a map.
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
        instead = f"with {_formatted(cover.used.plain())}, which {overlay} sets in {place}"
    else:
        above = dotted(("job", "config", *cover.path))
        instead = f"without it: {overlay}{dotted(('', *cover.path))} in {place} replaces all of {above}"
    is_version = cover.name.removeprefix("v")[:1].isdigit()
    return Finding(
        f"{dotted(('job', 'config', *path))} is {_formatted(leaf.plain())} here, and the job runs {instead}",
        leaf.key_at,
        rule="values/covered-by-overlay",
        why=f"The chart merges job.config of all files first, then {overlay}, whichever file is later.",
        fix=f"write it under {overlay}" + (", with the key of that version" if is_version else ""),
    )


def _formatted(value: Json) -> str:
    """Format a value for a message; show a list with its items, because the message compares two lists."""
    if not isinstance(value, list):
        return format_value(value)

    text = json.dumps(masking.clean(value), ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
