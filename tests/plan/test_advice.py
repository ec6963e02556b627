"""What helps really helps: every change is planned again, and every limit is the last value that fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo.cli.plans.subject import Subject
from grpo.lint.linter import described_run
from grpo.plan import planner
from grpo.plan.advice import changes, limits, offers
from grpo.plan.advice.changes import worst
from grpo.plan.phase import DOES_NOT_FIT, FITS
from grpo.values.config import RunConfig
from grpo.values.frameworks import configuration
from postrender import paths
from postrender.values import merge
from tests.conftest import stack_files

MACHINE = {"name": "h100", "gpusPerNode": 8, "gpuMemoryGigabytes": 80}
MICRO = "policy.train_micro_batch_size"
COLOCATED = "policy.generation.colocated.enabled"
LENGTH = "policy.max_total_sequence_length"
VERL_MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"


def nemo_rl(edits: dict[str, Any], nodes: int = 1, machine: dict[str, Any] = MACHINE) -> RunConfig:
    """Return a run of Llama-3.1-8B with NeMo RL."""
    words = ("policy.model_name=meta-llama/Llama-3.1-8B-Instruct", "policy.sequence_packing.enabled=false")
    words += ("policy.dtensor_cfg.activation_checkpointing=false", "policy.max_total_sequence_length=2048")
    return configuration.run_of("nemo-rl", "v0.7.0", None, words, machine, nodes).changed(edits)


def verl(edits: dict[str, Any]) -> RunConfig:
    """Return a run of Qwen3-8B with verl."""
    words = ("actor_rollout_ref.model.path=Qwen/Qwen3-8B", "actor_rollout_ref.rollout.name=vllm")
    words += ("actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8", "algorithm.adv_estimator=grpo")
    return configuration.run_of("verl", "0.9.1", None, [*words, f"{VERL_MICRO}=4"], MACHINE, 1).changed(edits)


def anything(run: RunConfig) -> bool:
    """Accept every change."""
    return True


def useful(run: RunConfig) -> list[changes.Change]:
    return changes.useful(run, offers.offers(run), anything)


def test_no_change_is_offered_twice() -> None:
    """The micro batch of either pass brings that of the other one along."""
    run = described_run(merge.load([*map(str, stack_files("h200"))]))
    assert run is not None
    found = useful(run.changed({MICRO: 4, "policy.logprob_batch_size": 4}))
    assert found
    assert [
        change for number, change in enumerate(found) if any(change.edits == one.edits for one in found[:number])
    ] == []


def large() -> list[RunConfig]:
    """Return runs that do not fit."""
    return [
        nemo_rl({MICRO: 64}),
        nemo_rl({LENGTH: 131072}),
        nemo_rl({"policy.model_name": "Qwen/Qwen3-32B", MICRO: 8}),
        verl({VERL_MICRO: 512}),
        verl({"actor_rollout_ref.model.enable_gradient_checkpointing": False, VERL_MICRO: 32}),
    ]


@pytest.mark.parametrize("run", large(), ids=range(len(large())))
def test_a_change_has_the_effect_that_it_claims(run: RunConfig) -> None:
    before = changes.loads(planner.plan(run))
    assert worst(planner.plan(run)) == DOES_NOT_FIT
    found = useful(run)
    assert found
    assert found[0].verdict == FITS
    for change in found:
        after = planner.plan(run.changed(change.edits))
        assert worst(after) == change.verdict
        for name, (old, new) in change.improved.items():
            assert (before[name], changes.loads(after)[name]) == (old, new)


@pytest.mark.parametrize("run", large(), ids=range(len(large())))
def test_changes_that_keep_the_training_the_same_come_first(run: RunConfig) -> None:
    found = [change for change in useful(run) if change.verdict == FITS and len(change.costs) == 1]
    assert [change.changes_training for change in found] == sorted(change.changes_training for change in found)


def test_the_smallest_sufficient_change_is_offered() -> None:
    run = nemo_rl({MICRO: 64})
    change = next(change for change in useful(run) if MICRO in change.edits)
    size = change.edits[MICRO]
    assert isinstance(size, int)
    assert worst(planner.plan(run.changed({MICRO: size * 2}))) != FITS


def test_an_unsound_change_is_not_offered() -> None:
    run = nemo_rl({MICRO: 64})
    found = changes.useful(run, offers.offers(run), lambda changed: changed.integer(MICRO) == 64)
    assert found
    assert not any(MICRO in change.edits for change in found)


def test_changes_are_combined_when_none_suffices_alone() -> None:
    run = nemo_rl({"policy.model_name": "meta-llama/Llama-3.1-70B-Instruct", MICRO: 16, LENGTH: 8192}, nodes=2)
    first = useful(run)[0]
    assert len(first.costs) > 1
    assert worst(planner.plan(run.changed(first.edits))) == first.verdict == FITS


def test_a_run_that_fits_needs_no_change() -> None:
    assert useful(nemo_rl({MICRO: 1})) == []


def test_generation_moves_to_separate_nodes_if_needed_and_back_if_that_saves_gpus() -> None:
    """A node that is too small for what sleeps there trains where another one generates."""
    small = {**MACHINE, "worker": {"memory": "250Gi"}}
    run = nemo_rl({MICRO: 1}, machine=small)
    apart = [change for change in useful(run) if change.edits.get(COLOCATED) is False]
    assert [(change.verdict, list(change.improved)) for change in apart] == [(FITS, [changes.NODE])]
    assert run.changed(apart[0].edits).nodes == 2
    assert changes.savings(run, [offers.colocated(run)], anything) == []
    split = run.changed(apart[0].edits)
    assert changes.savings(split, [offers.colocated(split)], anything) == []
    large = nemo_rl({MICRO: 1}).changed(apart[0].edits)
    (saving,) = changes.savings(large, [offers.colocated(large)], anything)
    assert (saving.now, saving.after, saving.edits[COLOCATED]) == (16, 8, True)
    assert changes.savings(large, [offers.colocated(large)], lambda changed: not changed.on(COLOCATED)) == []


def found_limits(run: RunConfig) -> dict[str, Any]:
    return {each.what: each for each in limits.limits(run, anything)}


@pytest.mark.parametrize("run", [nemo_rl({}), nemo_rl({MICRO: 64}), nemo_rl({LENGTH: 131072})], ids=range(3))
def test_a_limit_is_the_last_value_that_fits(run: RunConfig) -> None:
    found = found_limits(run)
    longest = found["longest sequence"]
    if longest.fits is not None:
        assert worst(planner.plan(run.changed({LENGTH: longest.fits}))) == FITS
        most = longest.fits + 64
        is_most = most > planner.read(run).model.positions()
        assert is_most or worst(planner.plan(run.changed({LENGTH: most}))) != FITS
    micro = found["largest micro batch"]
    if micro.fits is not None and micro.is_whole:
        assert worst(planner.plan(run.changed({MICRO: micro.fits}))) == FITS
        assert worst(planner.plan(run.changed({MICRO: micro.fits * 2}))) != FITS
    nodes = found["fewest nodes"]
    if nodes.fits is not None:
        for count in range(1, nodes.fits):
            assert worst(planner.plan(run.changed(offers.nodes(run, count)))) != FITS


def test_the_longest_sequence_is_limited_by_a_token_based_micro_batch() -> None:
    """Verl stops where a sequence is longer than ppo_max_token_len_per_gpu."""
    run = verl({"actor_rollout_ref.actor.use_dynamic_bsz": True})
    assert found_limits(run)["longest sequence"].fits == 16384


def test_a_packed_run_has_no_largest_micro_batch() -> None:
    assert "largest micro batch" not in found_limits(nemo_rl({"policy.sequence_packing.enabled": True}))


def test_an_unmodelled_run_has_no_limits() -> None:
    assert limits.limits(nemo_rl({"policy.model_name": "acme/unknown"}), anything) == []


EDITS: dict[str, list[dict[str, Any]]] = {
    "nemo-rl": [{}, {MICRO: 6}, {MICRO: 96}, {LENGTH: 16384}, {"policy.model_name": "Qwen/Qwen3-32B"}],
    "verl": [{}, {VERL_MICRO: 48}, {"data.max_response_length": 16384}],
}


def recipes() -> list[Any]:
    """Return each recipe on three machines; only those of other kinds are in the quick suite."""
    names = [Path(path).stem for path in paths.recipes() if "smoke" not in path]
    quick = {("h100-mega", "gemma3-27b-gsm8k", 0), ("h200", "llama3.1-8b-math-2n", 4)}
    return [
        pytest.param(machine, name, index, marks=[] if (machine, name, index) in quick else [pytest.mark.full])
        for machine in ("b200", "h200", "h100-mega")
        for name in names
        for index in range(len(EDITS["verl" if "verl" in name else "nemo-rl"]))
    ]


@pytest.mark.parametrize(("machine", "name", "index"), recipes())
def test_limits_agree_with_the_suggested_changes(machine: str, name: str, index: int) -> None:
    """Every change and every limit is planned again; where one value alone suffices, both name the same one."""
    base = described_run(merge.load([*map(str, stack_files(machine, recipe=name))]))
    assert base is not None
    run = base.changed(EDITS[base.framework][index])
    subject = Subject(run, (), None)
    most = limits.limits(run, subject.is_sound)
    found = changes.useful(run, offers.offers(run, limits.fitting(most)), subject.is_sound)
    for change in found:
        assert worst(planner.plan(run.changed(change.edits))) == change.verdict, change
    for saving in changes.savings(run, [offers.colocated(run)], subject.is_sound):
        changed = run.changed(saving.edits)
        assert (worst(planner.plan(changed)), changed.nodes * changed.gpus) == (FITS, saving.after)
        assert subject.is_sound(changed)
    for limit in most:
        if limit.fits is None:
            alone = [each for each in found if {*each.edits} <= {limit.key, "policy.logprob_batch_size"}]
            assert [each for each in alone if limit.key in each.edits and each.verdict == FITS] == []
            continue
        prompt = run.integer("data.max_prompt_length") if limit.key.startswith("data.") else 0
        edits = {
            offers.NODES: lambda key, size: offers.nodes(run, size),
            offers.LONGEST: lambda key, size: offers.length(run, key, size),
        }.get(limit.key, lambda key, size: offers.micro_batch(run, key, size))(limit.key, limit.fits - prompt)
        changed = run.changed(edits)
        assert worst(planner.plan(changed)) == FITS, limit
        assert subject.is_sound(changed), limit
        is_less = limit.fits > limit.now if limit.key == offers.NODES else limit.fits < limit.now
        if found and is_less:
            assert [each.edits for each in found if each.edits == edits] == [edits], limit
