"""Batch sizes: prompts of a step and of an update, sequences a GPU."""

from __future__ import annotations

from postrender.rules.values import WARNING, Said, shown
from postrender.rules.verl import (
    ACTOR,
    BATCH,
    CHECKED,
    DYNAMIC,
    MICRO,
    MINI,
    NODES,
    REF,
    ROLLOUT,
    SAMPLES,
    STEP,
    WORKER,
    book,
    data_parallel,
    gpus,
    has_engine_workers,
    is_megatron,
    sequence_parallel,
    uses_reference,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.effective import Effective

_book = book()
RULES = _book.rules
_WHOLE = f"{ACTOR}.ppo_micro_batch_size"


@_book.rule(
    "batch-not-divisible-by-gpus",
    "B1",
    f"{BATCH} {SAMPLES} {NODES}",
    title="the sequences of a step are a multiple of the GPUs",
    why=CHECKED,
    fix="choose train_batch_size × rollout.n as a multiple of all GPUs",
    source="utils/config.py:110 at 0.7.1",
)
def _batch(run: Effective) -> str | None:
    if run.on(DYNAMIC):
        return None
    least = data_parallel(run) * run.integer(MICRO) if is_megatron(run) else gpus(run)
    made = run.integer(BATCH) * run.integer(SAMPLES)
    if least < 1 or made % least == 0:
        return None
    parts = f"{run.integer(BATCH)} prompts × {run.integer(SAMPLES)} answers = {made} sequences a step"
    return f"{parts} are not a multiple of {least} {'(DP × micro batch)' if is_megatron(run) else 'GPUs'}"


@_book.rule(
    "gpus-not-divisible-by-model",
    "B2",
    f"{ACTOR}.megatron.tensor_model_parallel_size {NODES}",
    title="the GPUs are a multiple of Megatron's TP × PP × CP",
    why=CHECKED,
    fix="choose parallel sizes whose product divides the GPUs",
    source="utils/config.py:96 at 0.7.1",
)
def _model(run: Effective) -> str | None:
    if not is_megatron(run) or run.on(DYNAMIC):
        return None
    names = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    sizes = [run.integer(f"{ACTOR}.megatron.{name}") for name in names]
    product = sizes[0] * sizes[1] * sizes[2]
    what = f"TP {sizes[0]} × PP {sizes[1]} × CP {sizes[2]} = {product}"
    return f"{gpus(run)} GPUs are no multiple of {what}" if product < 1 or gpus(run) % product else None


@_book.rule(
    "mini-batch-larger-than-batch",
    "B3",
    f"{MINI} {BATCH}",
    title="an update takes no more prompts than the step has",
    why=CHECKED,
    fix="set ppo_mini_batch_size, which counts prompts, to train_batch_size or less",
    source="workers/config/actor.py:217 at 0.7.1",
)
def _mini(run: Effective) -> str | None:
    batch, mini = run.integer(BATCH), run.integer(MINI)
    wrong = not run.on(DYNAMIC) and batch < mini
    return f"ppo_mini_batch_size {mini} is more than train_batch_size {batch}" if wrong else None


@_book.rule(
    "mini-batch-not-dividing-batch",
    "S7",
    f"{MINI} {BATCH}",
    title="the prompts of a step are whole updates",
    why="silent in some versions: the last update of each step is short, or padded with made-up rows",
    fix="choose a ppo_mini_batch_size that divides train_batch_size",
    source="workers/engine_workers.py:239 at 0.7.1",
)
def _updates(run: Effective) -> str | None:
    batch, mini = run.integer(BATCH), run.integer(MINI)
    return (
        f"train_batch_size {batch} is no multiple of ppo_mini_batch_size {mini}"
        if 0 < mini < batch and batch % mini
        else None
    )


@_book.rule(
    "micro-batch-once",
    "B4",
    f"{MICRO} {_WHOLE}",
    title="the actor's micro batch is given once, a GPU",
    why=CHECKED,
    fix="set ppo_micro_batch_size_per_gpu, and leave ppo_micro_batch_size null",
    source="workers/config/actor.py:193 at 0.7.1",
)
def _actor_micro(run: Effective) -> str | None:
    if run.on(DYNAMIC):
        return None
    return _once(run, ACTOR, "ppo_micro_batch_size")


@_book.rule(
    "log-prob-micro-batch-once",
    "B5",
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu {REF}.log_prob_micro_batch_size_per_gpu",
    title="the micro batch of log probabilities is given once, for rollout and reference",
    why=CHECKED,
    fix="set log_prob_micro_batch_size_per_gpu, and leave log_prob_micro_batch_size null",
    source="utils/config.py:141 at 0.7.1",
)
def _log_prob(run: Effective) -> Iterator[Said]:
    if run.on(DYNAMIC):
        return
    for section in (ROLLOUT, REF) if uses_reference(run) else (ROLLOUT,):
        what = _once(run, section, "log_prob_micro_batch_size")
        if what:
            yield Said(what, keys=[f"{section}.log_prob_micro_batch_size_per_gpu", section])


def _once(run: Effective, section: str, name: str) -> str | None:
    whole, each = run.at(f"{section}.{name}"), run.at(f"{section}.{name}_per_gpu")
    if (whole is None) == (each is None):
        return f"{section}.{name} and {name}_per_gpu are {'both given' if whole is not None else 'both null'}"
    return None


@_book.rule(
    "deprecated-micro-batch",
    "B6",
    f"{_WHOLE} {MINI}",
    title="the deprecated micro batch divides the mini batch and covers all GPUs",
    why=CHECKED,
    fix="set ppo_micro_batch_size_per_gpu instead",
    source="workers/config/actor.py:225 at 0.7.1",
)
def _deprecated(run: Effective) -> str | None:
    if run.on(DYNAMIC) or run.at(_WHOLE) is None:
        return None
    whole, mini, size = run.integer(_WHOLE), run.integer(MINI), sequence_parallel(run)
    if whole < 1 or mini % whole:
        return f"ppo_mini_batch_size {mini} is no multiple of ppo_micro_batch_size {whole}"
    return (
        f"ppo_micro_batch_size {whole} × {size} is less than the {gpus(run)} GPUs" if whole * size < gpus(run) else None
    )


@_book.rule(
    "update-not-divisible",
    "B7 B8",
    f"{MICRO} {MINI} {SAMPLES} {NODES}",
    title="an update's sequences are shared evenly, in whole micro batches",
    why=STEP,
    fix="choose ppo_mini_batch_size × rollout.n as a multiple of DP × ppo_micro_batch_size_per_gpu",
    source="workers/fsdp_workers.py:251 at 0.7.1",
)
def _update(run: Effective) -> str | None:
    if run.on(DYNAMIC) or run.at(MICRO) is None:
        return None
    shards, micro = data_parallel(run), run.integer(MICRO)
    made = run.integer(MINI) * run.integer(SAMPLES)
    parts = f"{run.integer(MINI)} prompts × {run.integer(SAMPLES)} answers = {made} sequences an update"
    if has_engine_workers(run) and made % shards:
        return f"{parts} are not a multiple of data parallel size {shards}"
    if made // shards < 1:
        return f"{parts} are less than one for each of {shards} data parallel ranks"
    if micro < 1 or made // shards % micro:
        return f"{parts} / {shards} ranks = {made // shards}, no multiple of ppo_micro_batch_size_per_gpu {micro}"
    return None


@_book.rule(
    "sequences-not-divisible-by-agents",
    "B9",
    f"{ROLLOUT}.agent.num_workers {BATCH} {SAMPLES}",
    title="the sequences of a step are shared evenly by the agent workers",
    why=STEP,
    fix="choose an agent.num_workers that divides train_batch_size × rollout.n",
    source="protocol.py:874 at 0.7.1",
    before="0.9.1",
)
def _agents(run: Effective) -> str | None:
    made, workers = run.integer(BATCH) * run.integer(SAMPLES), run.integer(f"{ROLLOUT}.agent.num_workers")
    if run.at(f"{ROLLOUT}.mode") != "async" or (workers > 0 and made % workers == 0):
        return None
    return f"{made} sequences a step are not a multiple of agent.num_workers {workers}"


@_book.rule(
    "batch-not-divisible-by-sync",
    "B10",
    BATCH,
    title="a step's prompts are shared evenly between weight updates",
    why=STEP,
    fix="choose a parameter_sync_step that divides train_batch_size",
    source="trainer/ppo/v1/trainer_base.py:535 at 0.9.1",
    since="0.9.1",
)
def _sync(run: Effective) -> str | None:
    path = f"trainer.v1.{run.at('trainer.v1.trainer_mode')}.parameter_sync_step"
    if not run.on("trainer.use_v1") or run.at(path) is None:
        return None
    steps = run.integer(path)
    wrong = steps < 1 or run.integer(BATCH) % steps
    return f"train_batch_size {run.integer(BATCH)} is no multiple of parameter_sync_step {steps}" if wrong else None


@_book.rule(
    "dynamic-batch-once",
    "B11",
    f"{DYNAMIC} {ROLLOUT}.log_prob_use_dynamic_bsz",
    title="actor and log probabilities agree on dynamic batches",
    why=WORKER,
    fix="set both to the same, or leave rollout.log_prob_use_dynamic_bsz to follow the actor",
    source="workers/engine_workers.py:515 at 0.7.1",
    since="0.7.1",
)
def _dynamic(run: Effective) -> str | None:
    actor, rollout = run.on(DYNAMIC), run.on(f"{ROLLOUT}.log_prob_use_dynamic_bsz")
    if not has_engine_workers(run) or actor == rollout:
        return None
    return f"actor.use_dynamic_bsz is {shown(actor)}, and rollout.log_prob_use_dynamic_bsz {shown(rollout)}"


@_book.rule(
    "one-answer-a-group",
    "S8",
    SAMPLES,
    title="GRPO compares several answers to one prompt",
    why="silent: the advantage of a group of one is 0, so nothing is learned",
    fix='write "n": 8 (in quotes) under actor_rollout_ref.rollout',
    source="trainer/ppo/core_algos.py:290 at 0.7.1",
)
def _group(run: Effective) -> str | None:
    alone = run.at("algorithm.adv_estimator") == "grpo" and run.integer(SAMPLES) < 2
    return f"rollout.n is {run.integer(SAMPLES)} with adv_estimator grpo" if alone else None


@_book.rule(
    "clipping-never-active",
    "S14",
    MINI,
    title="a step has more than one update, or clipping has no effect",
    why="silent: with one update a step the importance ratio is 1, and clip_ratio changes nothing",
    fix="nothing, if that is meant; else lower ppo_mini_batch_size",
    source="trainer/ppo/core_algos.py:1240 at 0.7.1",
    severity=WARNING,
)
def _clipping(run: Effective) -> str | None:
    clips = any(run.given_has(f"{ACTOR}.{name}") for name in ("clip_ratio", "clip_ratio_low", "clip_ratio_high"))
    once = run.integer(BATCH) == run.integer(MINI) and run.at(f"{ACTOR}.ppo_epochs", 1) == 1
    return "a clip_ratio is given, and each step has one update" if clips and once else None
