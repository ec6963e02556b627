"""Numbers below their least, and words that the workers look up: sizes, worker counts, precision, device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.rules.values.checks import one_of, quoted, within
from postrender.rules.values.verl.run import (
    ACTOR,
    DYNAMIC,
    REF,
    ROLLOUT,
    SAMPLES,
    TOPIC,
    WORKER,
    failing,
    gpus,
    has_engine_workers,
    has_new_trainer,
    uses_reference,
    validates,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.finding import Finding
    from postrender.values.config import Effective

_DEVICE: Final = "trainer.device"
_HYBRID: Final = "actor_rollout_ref.hybrid_engine"
_SHARDS: Final = f"{ACTOR}.fsdp_config.fsdp_size"
_PRECISIONS: Final = (16, "16", "fp16", "float16", 32, "32", "fp32", "float32", "bf16", "bfloat16")
_MIXED: Final = ("param_dtype", "reduce_dtype", "buffer_dtype")


@TOPIC.rule(
    "size-of-nothing",
    "E28",
    "",
    title="lengths, sizes and numbers of workers are at least 1",
    why="the run fails when it reads its data, or with its first batch: the GPUs are paid for",
    fix="write a number of 1 or more, or remove the line for the default",
    source="trainer/ppo/ray_trainer.py:344 at 0.7.1",
)
def _sizes(run: Effective) -> Iterator[Finding]:
    paths = ["data.max_prompt_length", "data.max_response_length", f"{ROLLOUT}.prompt_length"]
    paths += [f"{ROLLOUT}.response_length", SAMPLES, *([f"{ROLLOUT}.val_kwargs.n"] if validates(run) else [])]
    paths += ["data.gen_batch_size", *([] if has_new_trainer(run) else ["data.val_batch_size"])]
    if run.since("0.7.1"):
        paths.append("reward.num_workers")
    if has_new_trainer(run):
        paths.append(f"{ROLLOUT}.agent.num_workers")
    if not (has_engine_workers(run) or run.on(DYNAMIC)):
        paths += [f"{each}.log_prob_micro_batch_size_per_gpu" for each in (ROLLOUT, REF)[: 1 + uses_reference(run)]]
    given = [path for path in paths if run.given_has(path)]
    yield from failing(run, {path: within(path, least=1) for path in given})
    loaders = "data.dataloader_num_workers"
    yield from failing(run, {loaders: within(loaders, least=0)})


@TOPIC.rule(
    "shards-not-dividing-gpus",
    "E29",
    _SHARDS,
    title="FSDP shards over all GPUs, or over a number that divides them",
    why=WORKER,
    fix="write -1 for all GPUs, or the GPUs of a node",
    source="workers/fsdp_workers.py:106 at 0.7.1",
)
def _shards(run: Effective) -> str | None:
    size = run.integer(_SHARDS)
    whole = size < 0 or size >= gpus(run) or (size > 0 and gpus(run) % size == 0)
    return None if whole else f"{gpus(run)} GPUs are not a multiple of fsdp_size {size}"


@TOPIC.rule(
    "precision",
    "E30",
    f"{ACTOR}.fsdp_config.model_dtype {ACTOR}.fsdp_config.mixed_precision",
    title="the precision of weights and gradients is one that verl knows",
    why=WORKER,
    fix="write fp32, bf16 or fp16",
    source="utils/torch_dtypes.py:62 at 0.7.1",
)
def _precision(run: Effective) -> Iterator[Finding]:
    sections = [ACTOR, *([REF] if uses_reference(run) else [])]
    for section in (f"{each}.fsdp_config" for each in sections):
        # Newer workers do not look at the key dtype.
        kinds = ["model_dtype", *([] if has_engine_workers(run) else ["dtype"])]
        kinds += [f"mixed_precision.{name}" for name in _MIXED]
        paths = [f"{section}.{name}" for name in kinds if run.given_has(f"{section}.{name}")]
        known = (*_PRECISIONS, None)
        yield from failing(run, {path: one_of(path, known) for path in paths})


@TOPIC.rule(
    "device",
    "E31",
    _DEVICE,
    title="the training is on NVIDIA's GPUs, which verl calls cuda",
    why="silent: the job waits forever for a resource that no node has; 0.9.1 refuses it",
    fix="write cuda, the default",
    source="single_controller/ray/base.py:140 at 0.7.1",
)
def _device(run: Effective) -> str | None:
    return one_of(_DEVICE, ("cuda",))(run)


@TOPIC.rule(
    "hybrid-engine",
    "E32",
    _HYBRID,
    title="training and generation share the GPUs",
    why="the trainer refuses it when it starts: the cluster is up, and its GPUs are paid for",
    fix="remove actor_rollout_ref.hybrid_engine",
    source="trainer/ppo/ray_trainer.py:273 at 0.7.1",
)
def _hybrid(run: Effective) -> str | None:
    refused = not has_new_trainer(run) and not run.on(_HYBRID)
    return f"{_HYBRID} is {quoted(run.at(_HYBRID))}" if refused else None
