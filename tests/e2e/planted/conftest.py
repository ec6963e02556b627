"""The cluster that the planted failures of a session share, and which of them run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinds
from harness import suite
from ray_site import RESULTS, Site


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `run.py` documents."""
    parser.addoption("--seeds", default="1", help="1, or 1-5")
    parser.addoption("--kinds", default="", help="names, with commas; the first of each outcome: outcomes")
    parser.addoption("--missing", action="store_true", help="only plants without a result in build/planted")
    parser.addoption("--part", default="1/1", help="K/N: every Nth plant, from the Kth")


def chosen(config: pytest.Config) -> list[tuple[kinds.Kind, int]]:
    """Return the plants of this session."""
    first, _, last = config.getoption("--seeds").partition("-")
    words = set(filter(None, config.getoption("--kinds").split(",")))
    found = kinds.first_of_each_outcome() if words == {"outcomes"} else kinds.KINDS
    found = [kind for kind in found if not words or words == {"outcomes"} or kind.name in words]
    part, of = map(int, config.getoption("--part").split("/"))
    # All kinds of a seed before the next seed: an interrupted session has some of each.
    plants = [(kind, seed) for seed in range(int(first), int(last or first) + 1) for kind in found]
    if config.getoption("--missing"):
        plants = [(kind, seed) for kind, seed in plants if not (RESULTS / f"{kind.name}-{seed}.json").exists()]
    return plants[part - 1 :: of]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each kind and seed."""
    if "kind" not in metafunc.fixturenames:
        return
    plants = chosen(metafunc.config)
    metafunc.parametrize(("kind", "seed"), plants, ids=[f"{kind.name}-{seed}" for kind, seed in plants])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what is no plant in the first part only."""
    if not config.getoption("--part").startswith("1/"):
        items[:] = [each for each in items if "kind" in getattr(each, "fixturenames", ())]


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A running cluster."""
    found = Site(Path(os.environ[suite.INSIDE]))
    try:
        found.start()
        yield found
    finally:
        found.programs.stop()
