"""The options that choose the planted failures of a session: a plugin of pytest, for both places where they run."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinds


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `run.py` documents."""
    parser.addoption("--seeds", default="1", help="1, or 1-5")
    parser.addoption("--kinds", default="", help="names, with commas; the first of each outcome: outcomes")
    parser.addoption("--missing", action="store_true", help="only plants without a result in build/")
    parser.addoption("--part", default="1/1", help="K/N: every Nth plant, from the Kth")


def chosen(config: pytest.Config, folder: Path, here: list[kinds.Kind]) -> list[tuple[kinds.Kind, int]]:
    """Return the plants of this session, of the kinds that can be planted there; their results are in a folder."""
    first, _, last = config.getoption("--seeds").partition("-")
    words = set(filter(None, config.getoption("--kinds").split(",")))
    found = kinds.first_of_each_outcome(here) if words == {"outcomes"} else here
    found = [kind for kind in found if not words or words == {"outcomes"} or kind.name in words]
    # All kinds of a seed before the next seed: an interrupted session has some of each.
    plants = [(kind, seed) for seed in range(int(first), int(last or first) + 1) for kind in found]
    if config.getoption("--missing"):
        plants = [(kind, seed) for kind, seed in plants if not (folder / f"{kind.name}-{seed}.json").exists()]
    return plants


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each kind and seed."""
    if "kind" not in metafunc.fixturenames:
        return
    folder, here = metafunc.module.FOLDER, metafunc.module.KINDS_HERE
    for_ci = metafunc.module.KINDS_FOR_CI
    plants = [
        pytest.param(kind, seed, id=f"{kind.name}-{seed}", marks=[pytest.mark.ci] if kind in for_ci else [])
        for kind, seed in chosen(metafunc.config, folder, here)
    ]
    metafunc.parametrize(("kind", "seed"), plants)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run one part of what a mark has left: every Nth plant, and what is no plant in the last part only."""
    part, of = map(int, config.getoption("--part").split("/"))
    plants = [each for each in items if "kind" in getattr(each, "fixturenames", ())]
    mine = plants[part - 1 :: of]
    items[:] = [each for each in items if each in mine or (part == of and each not in plants)]
