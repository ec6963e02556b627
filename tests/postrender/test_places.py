"""The places of a plain document, found without a YAML library, are those that the library gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from postrender import yamlio
from postrender.documents import Document, read
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


def twice(document: Document) -> Iterator[tuple[Any, Any]]:
    """Yield the places of a document's paths as they are found with and without the library."""
    (root,) = yamlio.parse(document.text.encode(), document.file)
    exact = Document(document.file, document.line, document.text, document.plain, root)
    for path in paths(document.plain):
        for key in (False, True):
            yield document.place(path, key=key), exact.place(path, key=key)


def documents() -> Iterator[Document]:
    """Yield the documents of all manifests that the tests have."""
    for path in FILES:
        try:
            yield from read({str(path): path.read_bytes()})
        except InputError:
            continue


def test_the_places_of_all_manifests_are_the_same() -> None:
    compared = 0
    for document in documents():
        for found, expected in twice(document):
            assert found == expected, document.text
            compared += 1
    assert compared > 10_000


def test_what_is_not_plain_has_its_places_too() -> None:
    (document,) = read({"f": ODD.encode()})
    assert all(found == expected for found, expected in twice(document))


def test_no_library_is_needed_for_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (document,) = read({"f": b"kind: A\nspec:\n- b: c\n"})
    monkeypatch.setattr(yamlio, "parse", None)
    place = document.place(("spec", 0, "b"))
    assert (place.line, place.col) == (3, 6)
