"""Batch sizes: prompts per step and per update, sequences per GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import quoted, within
from grpo.problems.frameworks.verl import TOPIC
from grpo.problems.sign import printed
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
from grpo.values.frameworks.verl_data import READ, batches
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig


@TOPIC.problem(
    "trainer.total_epochs trainer.total_training_steps",
    fails=Fails.SILENT,
    source="trainer/ppo/v1/trainer_base.py:467 at 0.9.1",
    severity=WARNING,
)
def no_steps(run: RunConfig) -> Iterator[Finding]:
    """trainer.total_epochs or trainer.total_training_steps is below 1

    Why: the nodes start, the model is loaded, and the run ends with exit code 0 without a training step
    Fix: set a whole number of 1 or more; to evaluate a model, run the evaluate task
    """
    for path in ("trainer.total_epochs", "trainer.total_training_steps"):
        count = run.integer(path) if run.at(path) is not None else 1
        if run.at("trainer.val_only") is not True and count < 1:
            yield Finding(f"{path} is {count}: there is no step", keys=[path])


@TOPIC.problem(
    f"{BATCH} {SAMPLES} {NODES}",
    fails=Fails.AT_SETUP,
    source="utils/config.py:124 at 0.9.1",
    logs="must be divisible by minimal possible batch size",
)
def batch_not_divisible_by_gpus(run: RunConfig) -> str | None:
    """the sequences of a step are not a multiple of the number of GPUs

    Fix: choose train_batch_size × rollout.n as a multiple of the total number of GPUs
    """
    if run.on(DYNAMIC) or sequences(run) % gpus(run) == 0:
        return None
    return f"{_step(run)} are not a multiple of {gpus(run)} GPUs"


def _step(run: RunConfig) -> str:
    return f"{run.integer(BATCH)} prompts × {run.integer(SAMPLES)} answers = {sequences(run)} sequences per step"


@TOPIC.problem(f"{BATCH} {SAMPLES} {NODES}", fails=Fails.AT_FIRST_STEP, source="utils/seqlen_balancing.py:147 at 0.9.1")
def dynamic_batch_not_divisible(run: RunConfig) -> str | None:
    """with dynamic micro batches, the ranks cannot share the sequences of a step evenly

    Why: verl does not check this with use_dynamic_bsz, so the run fails after the first generation
    Fix: choose train_batch_size × rollout.n as a multiple of the data parallel size
    """
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


@TOPIC.problem(BATCH, fails=Fails.AT_SETUP, source="trainer/ppo/v1/trainer_base.py:765 at 0.9.1")
def batch_of_nothing(run: RunConfig) -> str | None:
    """data.train_batch_size is null or below 1

    Fix: set a train_batch_size of 1 or more
    """
    return f"{BATCH} is null, expected 1 or more" if run.at(BATCH) is None else within(BATCH, least=1)(run)


@TOPIC.problem(
    f"{MINI} {BATCH}",
    fails=Fails.AT_SETUP,
    source="workers/config/actor.py:225 at 0.9.1",
    logs="must be >= actor.ppo_mini_batch_size",
)
def mini_batch_larger_than_batch(run: RunConfig) -> Iterator[Finding]:
    """ppo_mini_batch_size is above train_batch_size

    Fix: set ppo_mini_batch_size, which counts prompts, to train_batch_size or less
    """
    batch = run.integer(BATCH)
    for section in (ACTOR, CRITIC) if has_critic(run) else (ACTOR,):
        path = f"{section}.ppo_mini_batch_size"
        mini = 0 if run.on(f"{section}.use_dynamic_bsz") else run.integer(path)
        if 0 < batch < mini:
            yield Finding(f"ppo_mini_batch_size {mini} is more than train_batch_size {batch}", keys=[path, BATCH])


@TOPIC.problem(
    f"{MINI} {BATCH}", fails=Fails.AT_FIRST_STEP, source="utils/tensordict_utils.py:588 at 0.9.1", severity=WARNING
)
def mini_batch_not_dividing_batch(run: RunConfig) -> str | None:
    """ppo_mini_batch_size does not divide train_batch_size

    Why: the last update of a step is smaller or padded with dummy rows, or the workers reject the batch
    Fix: choose a ppo_mini_batch_size that divides train_batch_size
    """
    batch, mini = run.integer(BATCH), run.integer(MINI)
    whole = not 0 < mini < batch or batch % mini == 0
    return None if whole else f"train_batch_size {batch} is not a multiple of ppo_mini_batch_size {mini}"


@TOPIC.problem(
    f"{MINI} {SAMPLES} {NODES}",
    fails=Fails.AT_FIRST_STEP,
    source="workers/engine_workers.py:267 at 0.9.1",
    logs="and self.engine.get_data_parallel_size()=",
)
def update_not_divisible(run: RunConfig) -> str | None:
    """the data parallel ranks cannot share the sequences of an update evenly

    Fix: choose ppo_mini_batch_size × rollout.n as a multiple of the data parallel size
    """
    ranks, made = data_parallel(run), run.integer(MINI) * run.integer(SAMPLES)
    parts = f"{run.integer(MINI)} prompts × {run.integer(SAMPLES)} answers = {made} sequences per update"
    if made < ranks:
        return f"{parts} are less than one for each of {ranks} data parallel ranks"
    # Older workers round down.
    uneven = has_engine_workers(run) and made % ranks
    return f"{parts} are not a multiple of {ranks} data parallel ranks" if uneven else None


@TOPIC.problem(
    BATCH,
    fails=Fails.AT_FIRST_STEP,
    source="trainer/ppo/v1/trainer_base.py:535 at 0.9.1",
    since="0.9.1",
    logs="must be divisible by parameter_sync_step",
)
def batch_not_divisible_by_sync(run: RunConfig) -> Iterator[Finding]:
    """parameter_sync_step does not divide the prompts of a step

    Fix: choose a parameter_sync_step that divides train_batch_size
    """
    path = f"trainer.v1.{run.at('trainer.v1.trainer_mode')}.parameter_sync_step"
    if has_new_trainer(run) and run.at(path) is not None:
        steps = run.integer(path)
        if steps < 1 or run.integer(BATCH) % steps:
            yield Finding(
                f"train_batch_size {run.integer(BATCH)} is not a multiple of {path} {steps}", keys=[path, BATCH]
            )


@TOPIC.problem(
    f"{READ} {BATCH}",
    fails=Fails.AT_FIRST_STEP,
    source="trainer/ppo/v1/trainer_base.py:1485 at 0.9.1",
    since="0.9.1",
    logs="must be a positive multiple of gen_batch_size",
)
def batch_not_whole_reads(run: RunConfig) -> str | None:
    """data.gen_batch_size does not divide the prompts of a step

    Why: the first step fails when it reads its prompts: the model is loaded on all GPUs, and nothing is sampled
    Fix: remove data.gen_batch_size, or choose one that divides data.train_batch_size
    """
    if not has_new_trainer(run) or READ not in batches(run):
        return None
    batch, read = run.integer(BATCH), run.integer(READ)
    return f"{BATCH} {batch} is not a multiple of {READ} {read}" if read < 1 or batch % read else None


@TOPIC.problem(
    f"{ROLLOUT}.agent.num_workers {BATCH} {SAMPLES}",
    fails=Fails.AT_FIRST_STEP,
    source="protocol.py:871 at 0.9.1",
    # Workers that share a batch for training print the same.
    logs=printed("only support equal chunk", frames="agent_loop"),
)
def sequences_not_divisible_by_agents(run: RunConfig) -> str | None:
    """the agent workers cannot share the sequences of a step evenly

    Why: the run fails at the first generation, after the model is loaded on all GPUs
    Fix: choose an agent.num_workers that divides train_batch_size × rollout.n
    """
    if has_new_trainer(run) or run.at(f"{ROLLOUT}.mode") != "async" or run.variable("VERL_AUTO_PADDING"):
        return None
    made, workers = sequences(run), run.integer(f"{ROLLOUT}.agent.num_workers")
    if workers > 0 and made % workers == 0:
        return None
    return f"{made} sequences per step are not a multiple of agent.num_workers {workers}"


@TOPIC.problem(
    f"{ROLLOUT}.log_prob_use_dynamic_bsz {DYNAMIC}",
    fails=Fails.AT_LOADING,
    source="workers/engine_workers.py:616 at 0.9.1",
    since="0.7.1",
)
def dynamic_batch_once(run: RunConfig) -> str | None:
    """the actor and the log probabilities use different kinds of batches

    Fix: set both to the same value, or remove rollout.log_prob_use_dynamic_bsz, which follows the actor
    """
    actor, rollout = run.at(DYNAMIC), run.at(f"{ROLLOUT}.log_prob_use_dynamic_bsz")
    if not has_engine_workers(run) or actor == rollout:
        return None
    return f"actor.use_dynamic_bsz is {quoted(actor)}, and rollout.log_prob_use_dynamic_bsz {quoted(rollout)}"


@TOPIC.problem(
    f"{SEQUENCE} {ACTOR}.fsdp_config.ulysses_sequence_parallel_size {NODES}",
    fails=Fails.AT_LOADING,
    source="workers/engine/fsdp/transformer_impl.py:247 at 0.9.1",
)
def sequence_parallel_not_dividing_gpus(run: RunConfig) -> str | None:
    """ulysses_sequence_parallel_size does not divide the number of GPUs

    Fix: choose a ulysses_sequence_parallel_size that divides the total number of GPUs
    """
    size = sequence_parallel(run)
    wrong = size < 1 or gpus(run) % size
    return f"{gpus(run)} GPUs are not a multiple of ulysses_sequence_parallel_size {size}" if wrong else None


@TOPIC.problem(SAMPLES, fails=Fails.SILENT, source="trainer/ppo/core_algos.py:315 at 0.9.1")
def one_answer_a_group(run: RunConfig) -> str | None:
    """rollout.n is below 2, but GRPO compares several answers to a prompt

    Why: a group of one has nothing to compare with, so the advantage is just the reward
    Fix: set "n": 8 (in quotes) under actor_rollout_ref.rollout
    """
    estimator = run.at("algorithm.adv_estimator")
    if run.given_has(f"{ROLLOUT}.false"):
        # That is an n without quotes, and another rule says so.
        return None
    # Without rewards of the task the loss is the distance to the teacher: trainer/distillation/losses.py:211 at 0.8.0.
    distils = run.on("distillation.enabled") and not run.on("distillation.distillation_loss.use_task_rewards")
    alone = not distils and estimator in ("grpo", "grpo_vectorized", "grpo_passk") and run.integer(SAMPLES) < 2
    return f"rollout.n is {run.integer(SAMPLES)} with adv_estimator {estimator}" if alone else None


@TOPIC.problem(MINI, fails=Fails.SILENT, source="trainer/ppo/core_algos.py:1347 at 0.9.1", severity=WARNING)
def clipping_never_active(run: RunConfig) -> str | None:
    """a clip ratio is set, but each step has only one update

    Why: with one update per step the importance ratio is 1, and clip_ratio has no effect
    Fix: lower ppo_mini_batch_size; if one update per step is intended, accept the finding in checks.ignore
    """
    clips = any(run.given_has(f"{ACTOR}.{name}") for name in ("clip_ratio", "clip_ratio_low", "clip_ratio_high"))
    return "a clip_ratio is given, and each step has one update" if clips and is_on_policy(run) else None
