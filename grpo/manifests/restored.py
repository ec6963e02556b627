"""Know what the optimizer of a checkpoint brings back, so that a change of it does not reach an attempt that resumes.

Sources. NeMo RL v0.7.0: nemo_rl/models/automodel/setup.py and checkpoint.py load optimizer and scheduler after they are
made; nemo_rl/models/megatron/setup.py gives `megatron_cfg.scheduler` to Megatron-Bridge, whose scheduler compares its
state with that of the checkpoint (megatron/core/optimizer_param_scheduler.py, `_check_and_set`). Megatron's parameter
groups keep `max_lr` and `min_lr` with either switch (NVIDIA/Megatron-LM#1138). verl v0.9.0:
verl/utils/checkpoint/fsdp_checkpoint_manager.py and megatron_checkpoint_manager.py. PyTorch: a LambdaLR restores its
base rates, and not its functions; a scheduler of another class gets the state of the saved one, if it fits at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from grpo.manifests import attempts
from grpo.manifests.attempts import Training
from postrender.manifests.pods import mapping
from postrender.types import Json, Path

IGNORED: Final = "ignored"
REFUSED: Final = "refused"
UNSURE: Final = "unsure"
_MEGATRON: Final = ("policy", "megatron_cfg")
_SCHEDULER: Final = (*_MEGATRON, "scheduler")
_DTENSOR_SCHEDULER: Final = ("policy", "scheduler")
_ACTOR: Final = ("actor_rollout_ref", "actor")
_LOADS: Final = (*_ACTOR, "checkpoint", "load_contents")
_SAVES: Final = (*_ACTOR, "checkpoint", "save_contents")
_NEW_RUN: Final = (
    "take the change back, or start a run with another job.name from the weights that task convert makes of a step"
)
_MODEL_ONLY: Final = (
    f"{_NEW_RUN}; or resume without the optimizer, with {'.'.join(_LOADS)}: [model] (its moments and the schedule "
    "begin again)"
)
_KEEP: Final = (
    f"{_NEW_RUN}. With {'.'.join(_SCHEDULER)}.use_checkpoint_opt_param_scheduler: true it resumes with the rates and "
    "the schedule of the checkpoint"
)


class Row(NamedTuple):
    """Keys that a resume takes from the checkpoint: what a change of them does, and for which pairs of attempts."""

    framework: str
    keys: tuple[Path, ...]
    effect: str
    applies: Callable[[Training, Training], bool]
    fix: str
    # Of an unsure change: what it does.
    says: str = ""

    @property
    def shown(self) -> list[str]:
        """Return the keys as they are written in values."""
        return [".".join(map(str, key)) for key in self.keys]


class Change(NamedTuple):
    """A change of keys that a resume takes from the checkpoint."""

    effect: str
    fields: tuple[Path, ...]
    text: str
    fix: str
    says: str = ""


def _dtensor(old: Training, new: Training) -> bool:
    return attempts.backend(old) == attempts.backend(new) == "DTensor" and _keeps_optimizer(old)


def _same_schedulers(old: Training, new: Training) -> bool:
    return _dtensor(old, new) and _schedulers(old) == _schedulers(new)


def _other_schedulers(old: Training, new: Training) -> bool:
    return _dtensor(old, new) and _schedulers(old) != _schedulers(new)


def _schedulers(run: Training) -> Json:
    """Return the class of a scheduler, or those of a list."""
    given = run.at(*_DTENSOR_SCHEDULER)
    if isinstance(given, list):
        return [mapping(each).get("name") for each in given if "milestones" not in mapping(each)]
    return mapping(given).get("name")


def _keeps_optimizer(old: Training) -> bool:
    return old.at("checkpointing", "save_optimizer") is not False


def _megatron(old: Training, new: Training) -> bool:
    return attempts.backend(old) == attempts.backend(new) == "Megatron" and _keeps_optimizer(old)


def _flag(run: Training, which: str) -> bool:
    return run.at(*_SCHEDULER, f"{which}_opt_param_scheduler") is True


def _compares(old: Training, new: Training) -> bool:
    return _megatron(old, new) and not _flag(new, "override") and not _flag(new, "use_checkpoint")


def _uses_checkpoint(old: Training, new: Training) -> bool:
    return _megatron(old, new) and _flag(new, "use_checkpoint")


def _overrides(old: Training, new: Training) -> bool:
    return _megatron(old, new) and _flag(new, "override")


def _strategy(run: Training) -> str:
    """Return which checkpoint manager of verl saves: fsdp or megatron; empty if unknown."""
    base = run.at("defaults")
    bases = base if isinstance(base, list) else [base]
    given = run.at(*_ACTOR, "strategy"), run.at("model_engine")
    if "megatron" in given or "ppo_megatron_trainer" in bases:
        return "megatron"
    return "fsdp" if given[0] in (None, "fsdp", "fsdp2") and given[1] in (None, "dp", "fsdp", "fsdp2") else ""


def _loads(old: Training, new: Training, part: str, strategy: str) -> bool:
    """Say whether a resume of verl loads a part of the checkpoint."""
    saved, read = old.at(*_SAVES), new.at(*_LOADS)
    wanted = new.at(*_SAVES) if read is None or isinstance(read, str) else read
    both = all(part in each for each in (saved, wanted) if isinstance(each, list))
    return both and _strategy(old) == _strategy(new) == strategy and new.at("trainer", "resume_mode") in (None, "auto")


def _optim(*names: str) -> tuple[Path, ...]:
    return tuple((*_ACTOR, "optim", name) for name in names)


def _of_megatron(*names: str) -> tuple[Path, ...]:
    return tuple((*_MEGATRON, *name.split(".")) for name in names)


_ADAM: Final = ("adam_beta1", "adam_beta2", "adam_eps", "sgd_momentum")
_SCHEDULE: Final = (
    *_of_megatron("optimizer.lr", "optimizer.min_lr", "optimizer.weight_decay", "scheduler.start_weight_decay"),
    *_of_megatron("scheduler.end_weight_decay", "scheduler.weight_decay_incr_style", "scheduler.lr_decay_style"),
    *_of_megatron("scheduler.lr_decay_iters", "scheduler.lr_warmup_iters"),
    # Megatron-Bridge counts its schedule in samples: iterations times this.
    ("policy", "train_global_batch_size"),
)

# docs/howto/learning-rate.md names the same.
ROWS: Final = (
    Row("nemo-rl", (("policy", "optimizer", "kwargs"),), IGNORED, _dtensor, _NEW_RUN),
    Row("nemo-rl", (_DTENSOR_SCHEDULER,), IGNORED, _same_schedulers, _NEW_RUN),
    Row(
        "nemo-rl",
        (_DTENSOR_SCHEDULER,),
        UNSURE,
        _other_schedulers,
        _NEW_RUN,
        "names other classes of schedulers than those whose state it loads",
    ),
    Row("nemo-rl", _SCHEDULE, REFUSED, _compares, _KEEP),
    Row(
        "nemo-rl",
        (("grpo", "max_num_steps"), ("grpo", "max_num_epochs")),
        UNSURE,
        _compares,
        _KEEP,
        "changes the length of Megatron's schedule, unless the other of the two limits is lower",
    ),
    Row("nemo-rl", _SCHEDULE, IGNORED, _uses_checkpoint, _NEW_RUN),
    Row("nemo-rl", _SCHEDULE[:2], IGNORED, _overrides, _NEW_RUN),
    Row("nemo-rl", _of_megatron(*(f"optimizer.{name}" for name in _ADAM)), IGNORED, _megatron, _NEW_RUN),
    Row("verl", _optim("lr"), IGNORED, lambda old, new: _loads(old, new, "extra", "fsdp"), _MODEL_ONLY),
    Row(
        "verl",
        _optim("weight_decay", "betas", "override_optimizer_config"),
        IGNORED,
        lambda old, new: _loads(old, new, "optimizer", "fsdp"),
        _MODEL_ONLY,
    ),
    Row(
        "verl",
        (*_optim("lr", "min_lr"), *((*_ACTOR, "optim", "override_optimizer_config", name) for name in _ADAM)),
        IGNORED,
        lambda old, new: _loads(old, new, "optimizer", "megatron"),
        _MODEL_ONLY,
    ),
)


def changes(old: Training, new: Training) -> Iterator[Change]:
    """Yield what differs between two attempts of a run, and what the checkpoint of the first one decides."""
    if old.framework != new.framework or not attempts.saves(old):
        return
    for row in ROWS:
        if row.framework != new.framework or not row.applies(old, new):
            continue
        found = [each for key in row.keys for each in _differing(key, old.at(*map(str, key)), new.at(*map(str, key)))]
        if found:
            text = ", ".join(f"{'.'.join(map(str, key))} ({_text(was)} → {_text(now)})" for key, was, now in found)
            yield Change(row.effect, tuple(("config", *key) for key, _, _ in found), text, row.fix, row.says)


def _differing(key: Path, was: Json, now: Json) -> Iterator[tuple[Path, Json, Json]]:
    if isinstance(was, dict) or isinstance(now, dict):
        before, after = (each if isinstance(each, dict) else {} for each in (was, now))
        for name in dict.fromkeys([*before, *after]):
            yield from _differing((*key, name), before.get(name), after.get(name))
    elif was != now:
        yield key, was, now


def _text(value: Json) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}" if any(isinstance(each, dict) for each in value) else json.dumps(value)
    return "not set" if value is None else str(value)
