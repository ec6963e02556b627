"""Space: the volume of a run holds its checkpoints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from postrender.finding import WARNING, Finding
from postrender.rules.values.define import Topic
from postrender.values.derived import mapping
from postrender.values.frameworks import nemo_rl, parameters, verl
from postrender.values.frameworks.nemo_rl import DTENSOR, is_megatron
from postrender.values.quantity import quantity
from postrender.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.values.config import Effective

TOPIC: Final = Topic("job", framework="", source="")
_GIB: Final = 2**30
# Bytes of a parameter in a checkpoint, in float32: the weight, and the two moments of Adam.
_WEIGHT, _MOMENTS = 4, 8
_ACTOR: Final = "actor_rollout_ref.actor"
_KEEP: Final = {"nemo-rl": "checkpointing.keep_top_k", "verl": "trainer.max_actor_ckpt_to_keep"}
_SAVE: Final = {"nemo-rl": "checkpointing.save_period", "verl": "trainer.save_freq"}


def _size(run: Effective) -> tuple[str, str, float]:
    """Return key, text and bytes of the volume of the run; raise UnknownError where the values do not give them."""
    name = str(run.value("job.volume"))
    volume = mapping(mapping(run.value("storage")).get(name))
    for kind in ("pvc", "lustre"):
        size = mapping(volume.get(kind)).get("size")
        found = quantity(size) if size is not None else None
        if found:
            return f"storage.{name}.{kind}.size", str(size), found
    raise UnknownError("the size of the volume")


def _checkpoint(run: Effective) -> float:
    """Return how many bytes a checkpoint takes at least; raise UnknownError if the run saves none, or others."""
    if run.value("job.task") not in (None, "train"):
        raise UnknownError("a checkpoint")
    if run.framework == "verl":
        contents, types = run.at(f"{_ACTOR}.checkpoint.save_contents"), (None, "fp32", "float32")
        known = run.at(f"{_ACTOR}.fsdp_config.model_dtype") in types and not run.at("actor_rollout_ref.model.lora_rank")
        known = known and isinstance(contents, list) and "model" in contents and run.number(_SAVE["verl"]) > 0
        with_moments, name = "optimizer" in (contents or ()), run.at(f"{_ACTOR}.optim.optimizer")
    else:
        known = run.on("checkpointing.enabled") and not is_megatron(run) and not run.on(f"{DTENSOR}.lora_cfg.enabled")
        with_moments = not (run.since("v0.6.0") and run.at("checkpointing.save_optimizer") is False)
        name = run.at("policy.optimizer.name")
    if not known:
        raise UnknownError("a checkpoint")
    with_moments = with_moments and name in ("Adam", "AdamW", "torch.optim.Adam", "torch.optim.AdamW")
    model = verl.model_of(run) if run.framework == "verl" else nemo_rl.model_of(run)
    return float(parameters.count(model).total * (_WEIGHT + _MOMENTS * with_moments))


def _count(run: Effective) -> int:
    """Return how many checkpoints lie on the volume at the same time, the one that is being written included."""
    steps = run.integer("trainer.total_training_steps" if run.framework == "verl" else "grpo.max_num_steps")
    saves, keep = math.ceil(steps / run.integer(_SAVE[run.framework])), run.at(_KEEP[run.framework])
    if not isinstance(keep, int) or keep < 1:
        return saves
    # NeMo RL keeps the newest one too, and deletes after it has written.
    return min(saves, keep if run.framework == "verl" else keep + 2)


def _gib(size: float) -> str:
    return f"{math.ceil(size / _GIB)} GiB"


@TOPIC.rule(
    "volume-below-checkpoint",
    "verl/S12 nemo-rl/P7",
    "=job.volume",
    title="the volume of the run has room for a checkpoint",
    why="the run fails when it saves its first checkpoint (No space left on device), and all steps before are lost",
    fix="write a larger size, with room for all checkpoints that lie there at the same time",
    source="nemo_rl/utils/checkpoint.py:140 at v0.7.0",
)
def _too_small(run: Effective) -> Iterator[Finding]:
    (key, text, size), each = _size(run), _checkpoint(run)
    if size < each:
        try:
            count = _count(run)
        except UnknownError:
            count = 1
        fix = f"write {math.ceil(each * count / _GIB)}Gi or more: {count} lie there at the same time"
        yield Finding(f"{key} is {text}, and a checkpoint takes at least {_gib(each)}", keys=[f"={key}"], fix=fix)


@TOPIC.rule(
    "volume-below-checkpoints",
    "verl/S12 nemo-rl/P7",
    "=job.volume checkpointing.keep_top_k trainer.max_actor_ckpt_to_keep",
    title="the volume of the run has room for all checkpoints that it keeps",
    why="the volume fills up in the middle of the training, and the run fails with No space left on device",
    fix="write a larger size, or keep fewer checkpoints",
    source="nemo_rl/utils/checkpoint.py:269 at v0.7.0",
    severity=WARNING,
)
def _too_few(run: Effective) -> Iterator[Finding]:
    (key, text, size), each = _size(run), _checkpoint(run)
    count = _count(run)
    if each <= size < each * count:
        what = f"{key} is {text}, and {count} checkpoints of {_gib(each)} lie there at the same time"
        fix = f"write {math.ceil(each * count / _GIB)}Gi or more, or keep fewer"
        yield Finding(what, keys=[f"={key}", _KEEP[run.framework]], fix=fix)
