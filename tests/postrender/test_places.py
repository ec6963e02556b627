"""Every part of a manifest has its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from grpo.manifests.loader import read
from postrender.errors import InputError
from tests.conftest import ROOT

FILES = sorted(path for path in (ROOT / "tests").rglob("*.yaml") if not path.is_symlink())
ODD = """\
kind: A
spec:
  a: {b: c, d: [1]}
  e: |
    f: g

  h:
  - i: j
    "k": l
  -   - m
  n: # o
    p: 'q'
  r:
  s: [
    1]
"""


def paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield every path of a tree, and paths that it does not have."""
    yield path
    yield (*path, "absent")
    yield (*path, 99)
    if isinstance(value, dict):
        for name, each in value.items():
            yield from paths(each, (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from paths(each, (*path, number))


@pytest.mark.full
def test_every_part_of_every_test_manifest_has_a_place() -> None:
    """The value of a path stands at its place, or on the line below where a block begins."""
    placed = 0
    for path in FILES:
        try:
            documents = read({str(path): path.read_bytes()})
        except InputError:
            continue
        for document in documents:
            lines = document.text.split("\n")
            for each in paths(document.plain):
                at = document.place(each)
                assert 0 < at.line - document.line <= len(lines)
                assert 0 < at.col <= len(lines[at.line - document.line - 1]) + 1
                placed += 1
    assert placed > 5_000


@pytest.mark.parametrize(
    ("path", "key", "line", "col"),
    [
        (("spec", "a", "b"), False, 3, 10),
        (("spec", "a", "b"), True, 3, 7),
        (("spec", "a", "d", 0), False, 3, 17),
        (("spec", "h", 0, "k"), False, 9, 10),
        (("spec", "h", 1, 0), False, 10, 9),
        (("spec", "false", "p"), True, 12, 5),
        (("spec", "s", 0), False, 15, 5),
        (("spec", "h", 5), False, 8, 3),
        (("absent",), False, 1, 1),
    ],
)
def test_a_path_leads_to_its_place_or_to_the_nearest_parent(path: Any, key: bool, line: int, col: int) -> None:
    (document,) = read({"f": ODD.encode()})
    at = document.place(path, key=key)
    assert (at.line, at.col) == (line, col)
