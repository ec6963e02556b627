"""Laws of a plan, and its verdicts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.plan import generation, host, planner
from grpo.plan.phase import DOES_NOT_FIT, FITS, NOT_MODELLED, TIGHT, Item, Phase
from grpo.plan.units import Bytes, gib
from grpo.values.config import RunConfig
from postrender.values import merge
from tests.conftest import stack_files

NODES = st.sampled_from([2, 4, 8])
LENGTHS = st.integers(min_value=9, max_value=14).map(lambda power: 2**power)


def plan(recipe: str = "llama3.1-8b-math-2n", accelerator: str = "h200", **policy: Any) -> planner.Plan:
    """Return the plan of a recipe with other settings of the policy."""
    tree = merge.over_defaults(merge.load([*map(str, stack_files(accelerator, recipe=recipe))]))
    nodes = policy.pop("nodes", None)
    job = merge.overlay(tree["job"], {"config": {"policy": policy}})
    ray = merge.overlay(tree["ray"], {"workers": {"replicas": nodes}} if nodes else {})
    return planner.plan(RunConfig({**tree, "job": job, "ray": ray}))


def peaks(planned: planner.Plan) -> dict[str, Bytes]:
    return {each.phase.name: each.phase.peak for each in planned.phases}


@given(NODES, LENGTHS)
def test_more_nodes_never_need_more_memory_per_gpu(nodes: int, length: int) -> None:
    few, many = (peaks(plan(nodes=each, max_total_sequence_length=length)) for each in (nodes, 2 * nodes))
    assert all(many[name] <= few[name] for name in few)


@given(LENGTHS, st.booleans())
def test_longer_sequences_never_need_less_memory(length: int, packs: bool) -> None:
    packing = {"sequence_packing": {"enabled": packs}}
    short, long = (peaks(plan(max_total_sequence_length=each, **packing)) for each in (length, 2 * length))
    assert all(long[name] >= short[name] for name in short if name != generation.GENERATION)


@given(LENGTHS, st.sampled_from([1, 2, 4]))
def test_tensor_and_sequence_parallelism_never_raise_peak_memory(length: int, size: int) -> None:
    def of(tensor: int, *, sequence: bool) -> dict[str, Bytes]:
        section = {"_v2": False, "tensor_parallel_size": tensor, "sequence_parallel": sequence}
        return peaks(plan(max_total_sequence_length=length, dtensor_cfg=section, logprob_batch_size=2))

    less, more, sequence = of(size, sequence=False), of(2 * size, sequence=False), of(2 * size, sequence=True)
    for name in ("train: loss", "train: backward"):
        assert sequence[name] <= more[name] <= less[name]


@given(st.integers(0, 100_000), st.floats(0, 100), st.floats(1e-6, 0.01))
def test_the_largest_micro_batch_fits_but_one_more_token_does_not(tokens: int, fixed: float, each: float) -> None:
    item = Item("", "", "", gib(fixed), gib(each))
    phase = Phase("", (item,), tokens, tokens, gib(80), 0.85)
    most = phase.max_tokens
    if most:
        assert phase.at(most) <= gib(80) * 0.8500001
        assert phase.at(most + 1) >= gib(80) * 0.8499999


@pytest.mark.parametrize(
    ("worst", "realistic", "verdict"), [(10, 5, FITS), (70, 60, TIGHT), (200, 60, TIGHT), (200, 100, DOES_NOT_FIT)]
)
def test_the_verdict_compares_worst_case_and_realistic_tokens_with_the_memory(
    worst: int, realistic: int, verdict: str
) -> None:
    phase = Phase("", (Item("", "", "", per_token=gib(1)),), worst, realistic, gib(80), 0.85)
    assert phase.verdict == verdict


def test_a_large_model_on_a_small_topology_does_not_fit() -> None:
    planned = plan(model_name="meta-llama/Llama-3.1-405B-Instruct")
    assert planned.verdict == DOES_NOT_FIT
    assert planned.setup
    assert host.verdict(planned.setup) == DOES_NOT_FIT


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"model_name": "ours/other"}, "the model ours/other is not known: give its config.json with --model-config"),
        ({"generation": {"backend": "sglang"}}, "generation with sglang"),
        ({"optimizer": {"name": "torch.optim.SGD"}}, "the optimizer torch.optim.SGD"),
        ({"max_total_sequence_length": 0}, "a size that no run has: 0, below 0 or too large"),
        ({"max_total_sequence_length": 10**300}, "a size that no run has: 0, below 0 or too large"),
        ({"train_micro_batch_size": -1}, "a size that no run has: 0, below 0 or too large"),
    ],
)
def test_an_unmodelled_feature_is_named(policy: dict[str, Any], reason: str) -> None:
    planned = plan(**policy)
    assert (planned.verdict, planned.reason) == (NOT_MODELLED, reason)
