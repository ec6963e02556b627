"""Values that no run has are named, and never end a plan with an error of Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.plan import planner
from grpo.plan.advice import changes, limits, offers
from grpo.plan.phase import VERDICTS
from grpo.report import plan as report
from grpo.report.plan import Answer
from grpo.values.config import RunConfig
from postrender.values import merge
from tests.conftest import stack_files

ODD = st.sampled_from([0, -1, 1.5, True, None, "x", "8", [], {}, 10**12, 1e308, float("inf"), float("nan")])
SECTIONS = ("policy", "grpo", "checkpointing", "loss_fn", "actor_rollout_ref", "trainer", "data", "algorithm")
MACHINE = [("accelerator", key) for key in ("gpuMemoryGigabytes", "gpusPerNode", "sharedMemory", "worker")]


@cache
def values(recipe: str) -> Mapping[str, Any]:
    return merge.over_defaults(merge.load([*map(str, stack_files(recipe=recipe))]))


@cache
def paths(recipe: str) -> list[tuple[str, ...]]:
    """Return the paths of all keys that the plan may read."""
    config = RunConfig(values(recipe)).config
    found = [("job", "config", *path) for name in SECTIONS if name in config for path in _below(config[name], (name,))]
    return [*found, *MACHINE, ("ray", "workers", "replicas"), ("job", "volume")]


def _below(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _below(value, (*path, key))


@pytest.mark.parametrize("recipe", ["llama3.1-8b-math-2n", "gemma3-27b-gsm8k", "qwen2.5-32b-gsm8k-verl"])
@given(st.data(), ODD)
def test_an_odd_value_still_yields_a_verdict(recipe: str, data: st.DataObject, value: Any) -> None:
    path = data.draw(st.sampled_from(paths(recipe)))
    for key in reversed(path):
        value = {key: value}
    planned = planner.plan(RunConfig(merge.overlay(values(recipe), value)))
    assert planned.verdict in VERDICTS
    assert report.write(Answer(planned), "json")
    assert report.write(Answer(planned), "text", explain=True)


@pytest.mark.parametrize("recipe", ["llama3.1-8b-math-2n", "qwen2.5-32b-gsm8k-verl"])
@settings(max_examples=10)
@given(st.data(), ODD)
def test_an_odd_value_still_yields_advice_and_limits(recipe: str, data: st.DataObject, value: Any) -> None:
    path = data.draw(st.sampled_from(paths(recipe)))
    for key in reversed(path):
        value = {key: value}
    run = RunConfig(merge.overlay(values(recipe), value))
    found = changes.useful(run, offers.offers(run), lambda _: True)
    answer = Answer(planner.plan(run), limits=limits.limits(run, lambda _: True), changes=found)
    assert report.write(answer, "json")
    assert report.write(answer, "text")
