"""Dependencies have both bounds, and the lower ones are those that are tested."""

from __future__ import annotations

import re
import tomllib

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_lowest_versions_are_the_tested_ones() -> None:
    """tests/lowest.txt pins each core dependency to its lower bound."""
    lower = {re.sub(r">=([\d.]+),<.*", r"==\1", requirement) for requirement in PROJECT["dependencies"]}
    pinned = {line for line in (ROOT / "tests/lowest.txt").read_text(encoding="utf-8").splitlines() if "==" in line}
    assert lower == pinned


def test_every_dependency_has_an_upper_bound() -> None:
    """A new major version comes in by a commit, not by chance."""
    extras = [requirement for group in PROJECT["optional-dependencies"].values() for requirement in group]
    unbounded = [item for item in [*PROJECT["dependencies"], *extras] if "<" not in item and "==" not in item]
    assert not unbounded
