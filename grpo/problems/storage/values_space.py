"""Space: the run's volume for checkpoints, a local disk for the model, the head's memory for conversion."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.plan import planner
from grpo.plan.setup import NotModelledError
from grpo.plan.units import Bytes
from grpo.problems.topic import Topic
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_GIB: Final = 2**30
_KEEP: Final = {"nemo-rl": "checkpointing.keep_top_k", "verl": "trainer.max_actor_ckpt_to_keep"}


class _Space(NamedTuple):
    """The volume's key, text and bytes, the bytes of a checkpoint, and how many are kept (None if unknown)."""

    key: str
    text: str
    size: float
    each: float
    kept: int | None


def _space(run: RunConfig) -> _Space:
    """Return what the checkpoints need and what the volume has; raise UnknownError if the volume's size is unknown."""
    each, saved = planner.checkpoints(run)
    if saved.volume is None or saved.kept == 0:
        raise UnknownError("the size of the volume")
    return _Space(saved.key, str(run.value(saved.key)), saved.volume.count, each.count, saved.kept)


def _gib(size: float) -> str:
    return f"{math.ceil(size / _GIB)} GiB"


def _asked(run: RunConfig, size: float) -> str:
    needed, why = planner.claim(run, Bytes(size))
    return f"{needed}Gi or more{f' ({why})' if why else ''}"


@TOPIC.problem("=job.volume", fails=Fails.AT_CHECKPOINT, source="nemo_rl/utils/checkpoint.py:140 at v0.7.0")
def volume_below_checkpoint(run: RunConfig) -> Iterator[Finding]:
    """the run's volume is too small for one checkpoint

    Why: the run fails when it saves its first checkpoint (No space left on device), and all earlier steps are lost
    Fix: set a larger size, with room for all checkpoints that are kept at the same time
    """
    key, text, size, each, count = _space(run)
    if size < each:
        why = f"{count} lie there at the same time" if count else "the number of checkpoints is not known"
        fix = f"write {_asked(run, each * (count or 1))}: {why}"
        yield Finding(f"{key} is {text}, and a checkpoint takes at least {_gib(each)}", keys=[f"={key}"], fix=fix)


@TOPIC.problem(
    "=job.volume checkpointing.keep_top_k trainer.max_actor_ckpt_to_keep",
    fails=Fails.AT_CHECKPOINT,
    source="nemo_rl/utils/checkpoint.py:269 at v0.7.0",
    severity=WARNING,
)
def volume_below_checkpoints(run: RunConfig) -> Iterator[Finding]:
    """the run's volume is too small for all the checkpoints that it keeps

    Why: the volume fills up in the middle of training, and the run fails with No space left on device
    Fix: set a larger size, or keep fewer checkpoints
    """
    key, text, size, each, count = _space(run)
    if count and each <= size < each * count:
        what = f"{key} is {text}, and {count} checkpoints of {_gib(each)} lie there at the same time"
        fix = f"write {_asked(run, each * count)}, or keep fewer"
        yield Finding(what, keys=[f"={key}", _KEEP[run.framework]], fix=fix)


@TOPIC.problem(
    "=job.stage", fails=Fails.AT_START, source="charts/grpo-job/templates/_stage.tpl at 0.1.0", severity=WARNING
)
def disk_below_model(run: RunConfig) -> Iterator[Finding]:
    """the local disk is too small for the model

    Why: copying the model fails on every node, and the job ends before training starts
    Fix: set a larger size, with room for all models that are trained on these pods
    """
    if run.value("job.stage") is not True or not run.trains:
        return
    (size, key), model = planner.local_disk(run), planner.weights(run)
    if size < model:
        what = f"{key} is {run.value(key)}, and the model takes about {_gib(model.count)} (2 bytes a parameter)"
        yield Finding(what, keys=[f"={key}"], fix=f"write {math.ceil(1.1 * model.gib)}Gi or more")


@TOPIC.problem("=ray.head.memory", fails=Fails.LATER, source="nemo_rl/utils/native_checkpoint.py:258 at v0.7.0")
def head_below_weights(run: RunConfig) -> str | None:
    """the head has too little memory for the weights that task convert merges

    Why: the kernel kills the conversion (exit code 137) after it has read the checkpoint
    Fix: raise ray.head.memory above the size of the weights; merging needs more memory than the weights alone
    """
    needs = _unheld(run) if run.value("job.task") == "convert" else None
    return f"ray.head.memory is {run.value('ray.head.memory')}, and the weights take {_gib(needs)}" if needs else None


def _unheld(run: RunConfig) -> float | None:
    """Return the bytes of the weights that task convert merges where the head does not hold them; else None."""
    has = None if run.value("ray.head.gpus.enabled") else quantity(run.value("ray.head.memory"))
    if has is None or run.value("stack.names.cluster"):
        # A cluster that somebody else made has a head of its own.
        return None
    try:
        needs = planner.converted(run).count
    except NotModelledError:
        return None
    return needs if has < needs else None


@TOPIC.problem(
    "=ray.head.memory",
    fails=Fails.LATER,
    source="nemo_rl/utils/native_checkpoint.py:258 at v0.7.0",
    severity=WARNING,
)
def head_below_conversion(run: RunConfig) -> str | None:
    """the head of a training has too little memory for task convert, which makes a model of its checkpoints

    Why: the training runs, and the step after it does not: the kernel kills the conversion (exit code 137)
    Fix: before the cluster starts, write ray.head.memory above the size of the weights; the merge needs more
    """
    if not run.trains or planner.checkpoints(run)[1].kept == 0:
        return None
    text, needs = run.value("ray.head.memory"), _unheld(run)
    return f"ray.head.memory is {text}, and task convert will read weights of {_gib(needs)}" if needs else None
