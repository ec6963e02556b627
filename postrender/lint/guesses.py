"""Say which key people mean by a natural guess, such as job.image. The guesses are in schemas/guesses.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from postrender import facts
from postrender.spelling import plain
from postrender.types import Path
from postrender.values.mutations import dotted
from postrender.yaml.reader import Node


@cache
def _guesses() -> Mapping[str, str]:
    guesses: dict[str, str] = facts.load("guesses.json")
    return guesses


def fix(path: Path, node: Node | None) -> str:
    """Return what to write instead of a key and of those below it; an empty text if nobody guesses them."""
    known = _guesses()
    found = [(each, known[name]) for each in _paths(path, node) if (name := plain(dotted(each))) in known]
    deepest = [(each, right) for each, right in found if not any(_is_above(each, other) for other, _ in found)]
    return "; ".join(_said(each, right, is_whole=each == path) for each, right in deepest)


def _said(path: Path, right: str, *, is_whole: bool) -> str:
    """Return one guess as a sentence; what stands below the key in question is named."""
    if " " not in right:
        return f"did you mean {right}?" if is_whole else f"write {dotted(path)} as {right}"
    return right if is_whole else f"for {dotted(path)}: {right}"


def _paths(path: Path, node: Node | None) -> Iterator[Path]:
    yield path
    if node is not None and isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from _paths((*path, key), child)


def _is_above(path: Path, other: Path) -> bool:
    return len(path) < len(other) and other[: len(path)] == path
