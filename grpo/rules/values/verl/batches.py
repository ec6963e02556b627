"""Batch sizes: prompts per step and per update, sequences per GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.rules.values.checks import quoted, within
from grpo.rules.values.verl.run import CHECKED, STEP, TOPIC, WORKER
from grpo.values.frameworks.verl import (
    ACTOR,
    BATCH,
    CRITIC,
    DYNAMIC,
    MINI,
    NODES,
    ROLLOUT,
    SAMPLES,
    SEQUENCE,
    data_parallel,
    gpus,
    has_critic,
    has_engine_workers,
    has_new_trainer,
    is_on_policy,
    sequence_parallel,
    sequences,
)
from postrender.finding import WARNING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import Effective


@TOPIC.rule(
    "no-steps",
    "B1",
    "trainer.total_epochs trainer.total_training_steps",
    title="the run trains for at least one step",
    why="silent: the nodes start, the model is loaded, and the run ends with exit code 0",
    fix="write a whole number of 1 or more; to evaluate a model, run task evaluate",
    source="verl/trainer/ppo/ray_trainer.py:1465 at v0.9.1",
    severity=WARNING,
)
def _no_steps(run: Effective) -> Iterator[Finding]:
    for path in ("trainer.total_epochs", "trainer.total_training_steps"):
        count = run.integer(path) if run.at(path) is not None else 1
        if run.at("trainer.val_only") is not True and count < 1:
            yield Finding(f"{path} is {count}: there is no step", keys=[path])


@TOPIC.rule(
    "batch-not-divisible-by-gpus",
    "B1",
    f"{BATCH} {SAMPLES} {NODES}",
    title="the sequences of a step are a multiple of the GPUs",
    why=CHECKED,
    fix="choose train_batch_size × rollout.n as a multiple of all GPUs",
    source="utils/config.py:110 at 0.7.1",
)
def _batch(run: Effective) -> str | None:
    if run.on(DYNAMIC) or sequences(run) % gpus(run) == 0:
        return None
    return f"{_step(run)} are not a multiple of {gpus(run)} GPUs"


def _step(run: Effective) -> str:
    return f"{run.integer(BATCH)} prompts × {run.integer(SAMPLES)} answers = {sequences(run)} sequences per step"


@TOPIC.rule(
    "dynamic-batch-not-divisible",
    "S6",
    f"{BATCH} {SAMPLES} {NODES}",
    title="the ranks share the sequences of a step evenly, also with dynamic micro batches",
    why="verl does not check it with use_dynamic_bsz: the run fails after the first generation",
    fix="choose train_batch_size × rollout.n as a multiple of the data parallel size",
    source="utils/seqlen_balancing.py:147 at 0.7.1",
)
def _shared(run: Effective) -> str | None:
    if not run.on(DYNAMIC) or has_new_trainer(run):
        return None
    # 0.6.1 balances over all GPUs, later ones over the data parallel ranks.
    by_gpu = not run.since("0.7.1") and run.on("trainer.balance_batch")
    parts = gpus(run) if by_gpu else data_parallel(run)
    return (
        f"{_step(run)} are not a multiple of {parts} {'GPUs' if by_gpu else 'ranks'}"
        if sequences(run) % parts
        else None
    )


@TOPIC.rule(
    "batch-of-nothing",
    "B1",
    BATCH,
    title="a step has prompts",
    why=CHECKED,
    fix="choose a train_batch_size of 1 or more",
    source="trainer/ppo/ray_trainer.py:368 at 0.7.1",
)
def _nothing(run: Effective) -> str | None:
    return f"{BATCH} is null, expected 1 or more" if run.at(BATCH) is None else within(BATCH, least=1)(run)


@TOPIC.rule(
    "mini-batch-larger-than-batch",
    "B3",
    f"{MINI} {BATCH}",
    title="an update has no more prompts than the step",
    why=CHECKED,
    fix="set ppo_mini_batch_size, which counts prompts, to train_batch_size or less",
    source="workers/config/actor.py:215 at 0.7.1",
)
def _mini(run: Effective) -> Iterator[Finding]:
    batch = run.integer(BATCH)
    for section in (ACTOR, CRITIC) if has_critic(run) else (ACTOR,):
        path = f"{section}.ppo_mini_batch_size"
        mini = 0 if run.on(f"{section}.use_dynamic_bsz") else run.integer(path)
        if 0 < batch < mini:
            yield Finding(f"ppo_mini_batch_size {mini} is more than train_batch_size {batch}", keys=[path, BATCH])


@TOPIC.rule(
    "mini-batch-not-dividing-batch",
    "S7 B8",
    f"{MINI} {BATCH}",
    title="the prompts of a step divide into whole updates",
    why="the last update of a step is smaller or padded with dummy rows, or the workers refuse the batch",
    fix="choose a ppo_mini_batch_size that divides train_batch_size",
    source="utils/tensordict_utils.py:556 at 0.7.1",
    severity=WARNING,
)
def _updates(run: Effective) -> str | None:
    batch, mini = run.integer(BATCH), run.integer(MINI)
    whole = not 0 < mini < batch or batch % mini == 0
    return None if whole else f"train_batch_size {batch} is not a multiple of ppo_mini_batch_size {mini}"


@TOPIC.rule(
    "update-not-divisible",
    "B7 B8",
    f"{MINI} {SAMPLES} {NODES}",
    title="the data parallel ranks share an update's sequences evenly",
    why=STEP,
    fix="choose ppo_mini_batch_size × rollout.n as a multiple of the data parallel size",
    source="workers/engine_workers.py:239 at 0.7.1",
)
def _update(run: Effective) -> str | None:
    ranks, made = data_parallel(run), run.integer(MINI) * run.integer(SAMPLES)
    parts = f"{run.integer(MINI)} prompts × {run.integer(SAMPLES)} answers = {made} sequences per update"
    if made < ranks:
        return f"{parts} are less than one for each of {ranks} data parallel ranks"
    # Older workers round down.
    uneven = has_engine_workers(run) and made % ranks
    return f"{parts} are not a multiple of {ranks} data parallel ranks" if uneven else None


@TOPIC.rule(
    "batch-not-divisible-by-sync",
    "B10",
    BATCH,
    title="the weight updates of a step share its prompts evenly",
    why=STEP,
    fix="choose a parameter_sync_step that divides train_batch_size",
    source="trainer/ppo/v1/trainer_base.py:535 at 0.9.1",
    since="0.9.1",
)
def _sync(run: Effective) -> Iterator[Finding]:
    path = f"trainer.v1.{run.at('trainer.v1.trainer_mode')}.parameter_sync_step"
    if has_new_trainer(run) and run.at(path) is not None:
        steps = run.integer(path)
        if steps < 1 or run.integer(BATCH) % steps:
            yield Finding(
                f"train_batch_size {run.integer(BATCH)} is not a multiple of {path} {steps}", keys=[path, BATCH]
            )


@TOPIC.rule(
    "sequences-not-divisible-by-agents",
    "B9",
    f"{ROLLOUT}.agent.num_workers {BATCH} {SAMPLES}",
    title="the agent workers share the sequences of a step evenly",
    why="the run fails at the first generation, after the model is loaded on all GPUs",
    fix="choose an agent.num_workers that divides train_batch_size × rollout.n",
    source="protocol.py:873 at 0.7.1",
)
def _agents(run: Effective) -> str | None:
    if has_new_trainer(run) or run.at(f"{ROLLOUT}.mode") != "async" or run.variable("VERL_AUTO_PADDING"):
        return None
    made, workers = sequences(run), run.integer(f"{ROLLOUT}.agent.num_workers")
    if workers > 0 and made % workers == 0:
        return None
    return f"{made} sequences per step are not a multiple of agent.num_workers {workers}"


@TOPIC.rule(
    "dynamic-batch-once",
    "B11",
    f"{ROLLOUT}.log_prob_use_dynamic_bsz {DYNAMIC}",
    title="actor and log probabilities use the same kind of batches",
    why=WORKER,
    fix="set both to the same value, or remove rollout.log_prob_use_dynamic_bsz, which follows the actor",
    source="workers/engine_workers.py:515 at 0.7.1",
    since="0.7.1",
)
def _dynamic(run: Effective) -> str | None:
    actor, rollout = run.at(DYNAMIC), run.at(f"{ROLLOUT}.log_prob_use_dynamic_bsz")
    if not has_engine_workers(run) or actor == rollout:
        return None
    return f"actor.use_dynamic_bsz is {quoted(actor)}, and rollout.log_prob_use_dynamic_bsz {quoted(rollout)}"


@TOPIC.rule(
    "sequence-parallel-not-dividing-gpus",
    "A4",
    f"{SEQUENCE} {ACTOR}.fsdp_config.ulysses_sequence_parallel_size {NODES}",
    title="the number of GPUs is a multiple of the sequence parallel size",
    why=WORKER,
    fix="choose a ulysses_sequence_parallel_size that divides all GPUs",
    source="workers/fsdp_workers.py:181 at 0.7.1",
)
def _sequence(run: Effective) -> str | None:
    size = sequence_parallel(run)
    wrong = size < 1 or gpus(run) % size
    return f"{gpus(run)} GPUs are not a multiple of ulysses_sequence_parallel_size {size}" if wrong else None


@TOPIC.rule(
    "one-answer-a-group",
    "S8",
    SAMPLES,
    title="GRPO samples several answers to a prompt",
    why="silent: a group of one has nothing to compare with, so the advantage is the plain reward",
    fix='write "n": 8 (in quotes) under actor_rollout_ref.rollout',
    source="trainer/ppo/core_algos.py:315 at 0.7.1",
)
def _group(run: Effective) -> str | None:
    estimator = run.at("algorithm.adv_estimator")
    # Without rewards of the task the loss is the distance to the teacher: trainer/distillation/losses.py:211 at 0.8.0.
    distils = run.on("distillation.enabled") and not run.on("distillation.distillation_loss.use_task_rewards")
    alone = not distils and estimator in ("grpo", "grpo_vectorized", "grpo_passk") and run.integer(SAMPLES) < 2
    return f"rollout.n is {run.integer(SAMPLES)} with adv_estimator {estimator}" if alone else None


@TOPIC.rule(
    "clipping-never-active",
    "S14",
    MINI,
    title="clipping needs more than one update per step",
    why="silent: with one update per step the importance ratio is 1, and clip_ratio has no effect",
    fix="lower ppo_mini_batch_size; if one update per step is intended, accept the finding in checks.ignore",
    source="trainer/ppo/core_algos.py:1338 at 0.7.1",
    severity=WARNING,
)
def _clipping(run: Effective) -> str | None:
    clips = any(run.given_has(f"{ACTOR}.{name}") for name in ("clip_ratio", "clip_ratio_low", "clip_ratio_high"))
    return "a clip_ratio is given, and each step has one update" if clips and is_on_policy(run) else None
