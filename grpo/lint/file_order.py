"""Find values that a later file overrides although it is the more general one, such as a recipe after a site file.

The order is: accelerator profile and recipe, then a file of values/frameworks/, then the site's files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import combinations

from grpo.lint.messages import format_value
from grpo.values.derived import mapping
from postrender import paths
from postrender.errors import Location
from postrender.finding import WARNING, Finding
from postrender.types import Path
from postrender.values import mutations
from postrender.values.merge import Values, profile_name
from postrender.yaml.reader import Node

_GENERAL, _FRAMEWORK, _SITE = range(3)
_NAMES = ("an accelerator profile or a recipe", "a file of values/frameworks/", "a file of your own")
_SHOWN = 3


def findings(merged: Values) -> Iterator[Finding]:
    """Yield one finding for each pair of files in the wrong order, at the first overridden value."""
    yield from _second_recipes(merged)
    ranks = [_rank(root) for root in merged.documents]
    for first, second in combinations(range(len(ranks)), 2):
        if ranks[first] > ranks[second]:
            lost = [*_overridden(merged.documents[first], merged.documents[second], merged)]
            if lost:
                yield _finding(merged.files[first], merged.files[second], ranks[second], lost)


def _second_recipes(merged: Values) -> Iterator[Finding]:
    """Yield a finding for each packaged recipe after the first one."""
    shipped = {os.path.realpath(recipe) for recipe in paths.recipes()}
    first, *others = [each for each in dict.fromkeys(merged.files) if os.path.realpath(each) in shipped] or [""]
    for other in others:
        yield Finding(
            f"{other} is a second recipe, after {first}",
            Location(other, 1, 1),
            severity=WARNING,
            rule="values/file-order",
            why="Later files win key by key: the run is a mixture of both, which nobody has tried.",
            fix="give one recipe, and your own changes in a file of yours",
        )


def _rank(root: Node) -> int:
    """Return a document's kind of file, judged by what it sets."""
    tree = root.plain()
    job = mapping(tree.get("job"))
    # A file of one's own may name an image and change the configuration; it says nothing of what is in the image.
    has_image = tree.get("images") and (job.get("version") or mapping(tree["images"].get("training")).get("rayVersion"))
    if profile_name(tree) or (job.get("config") and has_image):
        return _GENERAL
    return _FRAMEWORK if tree.get("images") and job.get("version") else _SITE


def _overridden(document: Node, later: Node, merged: Values) -> Iterator[tuple[Path, Node, Node]]:
    """Yield the values of a document whose final, different value is set by a later document."""
    for path, leaf in mutations.leaves(document):
        keys = next((path[:depth] for depth, part in enumerate(path) if isinstance(part, int)), path)
        used = merged.node(keys)
        if keys == path and used and used.at.file == later.at.file and used.plain() != leaf.plain():
            yield path, leaf, used


def _finding(first: str, second: str, rank: int, lost: list[tuple[Path, Node, Node]]) -> Finding:
    path, leaf, used = lost[0]
    name = mutations.dotted(path)
    more = f", and {len(lost) - 1} more of its values" if len(lost) > 1 else ""
    also: list[tuple[Location, str]] = [
        (here.key_at, f"wins: {mutations.dotted(where)} is {format_value(here.plain())}")
        for where, _, here in lost[:_SHOWN]
    ]
    return Finding(
        f"{name} is {format_value(leaf.plain())} here, and {second}, which comes later, overrides it with "
        f"{format_value(used.plain())}{more}",
        leaf.key_at,
        rule="values/file-order",
        why=f"Later files win, and {second} is {_NAMES[rank]}: what you set before it is lost.",
        fix=f"give {first} after {second}",
        also=also,
    )
