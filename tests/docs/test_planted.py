"""The planted failures: there are enough kinds, CI has one of each outcome, and the page has what all have cost."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs/howto/faults.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def kinds() -> Iterator[ModuleType]:
    """Import the kinds, which lie in no package."""
    spec = importlib.util.spec_from_file_location("planted_kinds", ROOT / "tests/e2e/planted/kinds.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_seed_always_plants_the_same_failure(kinds: ModuleType) -> None:
    for kind in kinds.KINDS:
        plants = [str(kinds.planned(kind, seed)) for seed in range(1, 6)]
        assert plants == [str(kinds.planned(kind, seed)) for seed in range(1, 6)]
        assert {"nemo-rl", "verl"} == {kinds.planned(kind, seed)[0] for seed in (1, 2)}


def test_ci_plants_one_failure_kind_per_outcome(kinds: ModuleType) -> None:
    for places in (kinds.KINDS, kinds.FROM_INSIDE):
        chosen = [kind.outcome for kind in kinds.first_of_each_outcome(places)]
        assert sorted(chosen) == sorted({kind.outcome for kind in places})


def test_the_page_has_a_row_for_each_failure_kind(kinds: ModuleType) -> None:
    assert len(kinds.KINDS) >= 15
    for kind in kinds.KINDS:
        assert PAGE.count(f"| {kind.what} | {kind.outcome} |") == 1, "run make planted"
