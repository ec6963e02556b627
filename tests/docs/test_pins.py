"""Dependencies have both bounds, and the lower ones are those that are tested."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement

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


BUILD = (ROOT / "tools/release/build.in").read_text(encoding="utf-8")
BUILD_SYSTEM = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
INSTALLED = [item for extra in ("render", "report") for item in PROJECT["optional-dependencies"][extra]]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("build", [line for line in BUILD.splitlines() if not line.startswith("#")] + BUILD_SYSTEM),
        ("runtime", PROJECT["dependencies"] + INSTALLED),
    ],
)
def test_the_release_lock_has_every_required_package_with_hashes(name: str, wanted: list[str]) -> None:
    """Where a bound has moved, the first lines of build.in say how to write the lock."""
    text = (ROOT / f"tools/release/{name}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    pinned = {match[1].lower(): match[2] for match in re.finditer(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}
    assert all("--hash=sha256:" in line for line in text.splitlines())
    for each in map(Requirement, wanted):
        key = each.name.lower().replace("_", "-")
        assert each.specifier.contains(pinned[key]), each
