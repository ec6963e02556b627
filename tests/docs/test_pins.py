"""Dependencies have both bounds, and the lower ones are those that are tested."""

from __future__ import annotations

import re
import tomllib

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


EXTRAS = [requirement for group in PROJECT["optional-dependencies"].values() for requirement in group]


def lower(requirements: list[str]) -> set[str]:
    """Return requirements with their lower bounds as pins."""
    return {re.sub(r">=([\d.]+),<.*", r"==\1", requirement) for requirement in requirements}


def test_the_lowest_versions_are_the_tested_ones() -> None:
    """tests/lowest.txt pins each core dependency to its lower bound, and what of the extras must be as old."""
    pinned = {line for line in (ROOT / "tests/lowest.txt").read_text(encoding="utf-8").splitlines() if "==" in line}
    core = lower(PROJECT["dependencies"])
    assert core <= pinned
    assert pinned - core <= lower(EXTRAS)


def test_every_dependency_has_an_upper_bound() -> None:
    """A new major version comes in by a commit, not by chance."""
    unbounded = [item for item in [*PROJECT["dependencies"], *EXTRAS] if "<" not in item and "==" not in item]
    assert not unbounded
