"""Damaged streams end in an error of ours or in a proven output; GRPO_FUZZ=20000 says how many, by hand."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postrender.wiring.apply import Options
from postrender.wiring.transforms import POLICIES
from tests.conftest import examples
from tests.corpus import mutate, proof

EXAMPLES = int(os.environ.get("GRPO_FUZZ", "0")) or examples(60)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def _damaged(data: Any) -> bytes:
    def draw(below: int) -> int:
        number: int = data.draw(st.integers(0, below - 1))
        return number

    stream = mutate.stream(draw)
    for _ in range(draw(5)):
        stream = mutate.mutated(stream, draw)
    return stream


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(data=st.data())
def test_a_damaged_stream_is_rejected_or_wired_faithfully(data: Any) -> None:
    policy = data.draw(st.sampled_from(POLICIES))
    proof.prove(_damaged(data), proof.wiring(), Options(policy=policy))


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(data=st.data())
def test_the_gate_judges_or_rejects_a_damaged_stream_without_crashing(data: Any) -> None:
    outcome = proof.prove(_damaged(data), proof.wiring(), gate=True)
    assert not any("crashed" in each for each in outcome.refusals), outcome.refusals


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(data=st.data())
def test_a_damaged_stream_is_safe_when_every_pod_is_a_target(data: Any) -> None:
    profile = data.draw(st.sampled_from(["b200", "h200", "rtx-pro-6000", "cpu"]))
    with proof.every_pod_a_target():
        proof.prove(_damaged(data), proof.wiring(profile), Options(policy="replace"))


@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_handled_safely(data: bytes) -> None:
    proof.prove(data, proof.wiring(), gate=True)


def test_mutated_streams_leave_enough_to_prove() -> None:
    passed = targets = 0
    state = 1

    def draw(below: int) -> int:
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % below

    for _ in range(200):
        outcome = proof.prove(mutate.mutated(mutate.stream(draw), draw), proof.wiring())
        passed += outcome.passed
        targets += outcome.targets
    assert passed > 50, passed
    assert targets > 50, targets


@pytest.mark.parametrize("size", [10, 1_000, pytest.param(50_000, marks=pytest.mark.full)])
def test_deep_and_wide_documents_finish_in_time(size: int) -> None:
    start = "kind: Pod\nspec:\n  containers:\n"
    for text in (
        start + "  - - " * size,
        start + "[" * size,
        start + "{a: " * size,
        start + "".join(f"{' ' * (at % 2000 + 2)}a:\n" for at in range(size)),
        start + "? " * size,
        start + "  - name: a\n" * size,
        start + "  - name: '" + "''" * size,
        start + "  - name: " + "!a " * size,
        "a: &a [" + "*a, " * size + "]\n" + start,
    ):
        proof.prove(text.encode(), proof.wiring())
