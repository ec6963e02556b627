"""Space: the volume of a run holds its checkpoints, a local disk its model, the head's memory what it converts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.plan import planner
from grpo.plan.setup import NotModelledError
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
    """The key, text and bytes of the run's volume, the bytes of a checkpoint, and their number, None if not known."""

    key: str
    text: str
    size: float
    each: float
    kept: int | None


def _space(run: RunConfig) -> _Space:
    """Return what the checkpoints need and the volume has; raise UnknownError where it is not known."""
    each, saved = planner.checkpoints(run)
    if saved.volume is None or saved.kept == 0:
        raise UnknownError("the size of the volume")
    return _Space(saved.key, str(run.value(saved.key)), saved.volume.count, each.count, saved.kept)


def _gib(size: float) -> str:
    return f"{math.ceil(size / _GIB)} GiB"


@TOPIC.problem("=job.volume", fails=Fails.AT_CHECKPOINT, source="nemo_rl/utils/checkpoint.py:140 at v0.7.0")
def volume_below_checkpoint(run: RunConfig) -> Iterator[Finding]:
    """the volume of the run is too small for one checkpoint

    Why: the run fails when it saves its first checkpoint (No space left on device), and all steps before are lost
    Fix: write a larger size, with room for all checkpoints that it holds at the same time
    """
    key, text, size, each, count = _space(run)
    if size < each:
        why = f"{count} lie there at the same time" if count else "the number of checkpoints is not known"
        fix = f"write {math.ceil(each * (count or 1) / _GIB)}Gi or more: {why}"
        yield Finding(f"{key} is {text}, and a checkpoint takes at least {_gib(each)}", keys=[f"={key}"], fix=fix)


@TOPIC.problem(
    "=job.volume checkpointing.keep_top_k trainer.max_actor_ckpt_to_keep",
    fails=Fails.AT_CHECKPOINT,
    source="nemo_rl/utils/checkpoint.py:269 at v0.7.0",
    severity=WARNING,
)
def volume_below_checkpoints(run: RunConfig) -> Iterator[Finding]:
    """the volume of the run is too small for all the checkpoints that it keeps

    Why: the volume fills up in the middle of the training, and the run fails with No space left on device
    Fix: write a larger size, or keep fewer checkpoints
    """
    key, text, size, each, count = _space(run)
    if count and each <= size < each * count:
        what = f"{key} is {text}, and {count} checkpoints of {_gib(each)} lie there at the same time"
        fix = f"write {math.ceil(each * count / _GIB)}Gi or more, or keep fewer"
        yield Finding(what, keys=[f"={key}", _KEEP[run.framework]], fix=fix)


@TOPIC.problem(
    "=job.stage", fails=Fails.AT_START, source="charts/grpo-job/templates/_stage.tpl at 0.1.0", severity=WARNING
)
def disk_below_model(run: RunConfig) -> Iterator[Finding]:
    """the local disk is too small for the model

    Why: the copy of the model fails on every node, and the job ends before the training starts
    Fix: write a larger size, with room for all models that are trained on these pods
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
    Fix: raise ray.head.memory above the size of the weights; the merge needs more than they take
    """
    text = run.value("ray.head.memory")
    has = quantity(text) if run.value("job.task") == "convert" and not run.value("ray.head.gpus.enabled") else None
    if has is None or run.value("stack.names.cluster"):
        # A cluster that somebody else made has a head of its own.
        return None
    try:
        needs = planner.converted(run)
    except NotModelledError:
        return None
    return f"ray.head.memory is {text}, and the weights take {_gib(needs.count)}" if has < needs.count else None
