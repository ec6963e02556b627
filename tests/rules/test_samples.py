"""The defects of the published set-ups, rebuilt in our own words: each is found where an object or a value shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postrender import lint
from postrender.check import check, read
from tests.conftest import stack_files

HERE = Path(__file__).parent / "samples"
OBJECTS = sorted(HERE.glob("*.yaml"))
VALUES = sorted((HERE / "values").glob("*.yaml"))
MARK = re.compile(r"# <- (\S+/\S+(?:, \S+/\S+)*)$")


def marked(text: str) -> list[tuple[int, str]]:
    """Return the lines with the rules that must find something there."""
    lines = enumerate(text.splitlines(), 1)
    return sorted((number, rule) for number, line in lines if (m := MARK.search(line)) for rule in m[1].split(", "))


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_the_defects_of_manifests_are_found(path: Path) -> None:
    found = check(read({str(path): path.read_bytes()}), None)
    assert sorted((each.at.line, each.rule) for each in found) == marked(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)
def test_the_defects_of_values_are_found(path: Path) -> None:
    """Over the stack that the first line names."""
    text = path.read_text(encoding="utf-8")
    first = re.match(r"# stack: (\S+) (\S+)\n", text)
    assert first
    found = lint.lint([*map(str, stack_files(first[1], first[2])), str(path)])
    assert sorted((each.at.line, each.rule) for each in found if each.at.file == str(path)) == marked(text)
