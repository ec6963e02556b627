"""Checkpoints: the metric that ranks them, their format, and when they are saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC, TRIAL
from grpo.values.frameworks.nemo_rl import DTENSOR, is_megatron, is_v2
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_METRIC = "checkpointing.metric_name"
_FORMAT = "checkpointing.model_save_format"
_BY = "checkpointing.checkpoint_must_save_by"
# The metrics of validation, if no environment adds its own.
_METRICS = ("accuracy", "avg_length")
_PARTS = 4


def _metric(run: RunConfig) -> str | None:
    """Return the metric that ranks checkpoints; None if none are saved, or if no metric ranks them."""
    name = run.at(_METRIC)
    return str(name) if run.on("checkpointing.enabled") and name is not None else None


@TOPIC.problem(
    _METRIC,
    fails=Fails.AT_CHECKPOINT,
    source="nemo_rl/algorithms/grpo.py:2901 at v0.7.0",
    logs="must start with 'val:' or 'train",
)
def metric_prefix(run: RunConfig) -> Iterator[Finding]:
    """the checkpoint metric does not begin with val: or train:

    Fix: use val:accuracy, another metric with its prefix, or null
    """
    name = _metric(run)
    if name is not None and not name.startswith(("val:", "train:")):
        known = {"val_reward": "val:accuracy", "accuracy": "val:accuracy", "val_accuracy": "val:accuracy"}.get(name)
        yield Finding(f'checkpointing.metric_name is "{name}"', proposed={_METRIC: known} if known else {})


@TOPIC.problem(
    "checkpointing.enabled", fails=Fails.SILENT, source="nemo_rl/algorithms/grpo.py:2883 at v0.7.0", severity=WARNING
)
def no_checkpoint(run: RunConfig) -> str | None:
    """checkpointing is off, so the trained model is never saved

    Why: no step is saved, not even the last one, so the trained model is lost when the job ends
    Fix: set checkpointing.enabled to true; the last step is then saved whatever the save_period
    """
    steps = run.integer("grpo.max_num_steps")
    # A short run is a trial.
    if run.at("checkpointing.enabled") is not False or steps <= TRIAL:
        return None
    return f"checkpointing.enabled is false, and the run has up to {steps} steps"


@TOPIC.problem(_METRIC, fails=Fails.AT_CHECKPOINT, source="nemo_rl/algorithms/grpo.py:2920 at v0.7.0")
def metric_unknown(run: RunConfig) -> Iterator[Finding]:
    """the checkpoint metric is not one that validation computes

    Fix: use val:accuracy
    """
    prefix, _, name = (_metric(run) or "").partition(":")
    if prefix == "val" and name not in _METRICS and not run.on("env.should_use_nemo_gym"):
        what = f'checkpointing.metric_name is "val:{name}", and validation computes {" and ".join(_METRICS)}'
        yield Finding(what, proposed={_METRIC: "val:accuracy"})


@TOPIC.problem(
    "checkpointing.save_period grpo.val_period",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:2912 at v0.7.0",
    severity=WARNING,
)
def saved_without_validation(run: RunConfig) -> Iterator[Finding]:
    """a step saves a checkpoint, but does not validate

    Why: a checkpoint without validation ranks below all others and is deleted, even if it is the best one
    Fix: choose a save_period that is a multiple of grpo.val_period
    """
    if not (_metric(run) or "").startswith("val:"):
        return
    save, validate = run.integer("checkpointing.save_period"), run.integer("grpo.val_period")
    last = run.integer("grpo.max_num_steps")
    if save >= last and (run.since("v0.6.0") and run.on("grpo.val_at_end")):
        # Only the last step saves, and it validates.
        return
    if validate <= 0:
        what = f"checkpoints are ranked by {_metric(run)}, and grpo.val_period is {validate}"
        fix = f"set grpo.val_period to {save}, the save_period, or checkpointing.metric_name to null"
        yield Finding(what, keys=["grpo.val_period"], fix=fix)
    elif save > last and last % validate:
        yield Finding(f"the last step, {last}, saves a checkpoint, and val_period {validate} does not reach it")
    elif save <= last and save % validate:
        yield Finding(f"save_period {save} is not a multiple of val_period {validate}")


@TOPIC.problem(
    f"{_FORMAT} {DTENSOR}._v2",
    fails=Fails.AT_CHECKPOINT,
    source="nemo_rl/models/policy/lm_policy.py:1083 at v0.7.0",
    logs="model_save_format must be None or omitted if using DTensorPolicyWorker (_v2=Fals",
)
def save_format(run: RunConfig) -> Iterator[Finding]:
    """the worker cannot write checkpoints in the format set in model_save_format

    Fix: use null with dtensor_cfg._v2 off, safetensors or torch_save with it on
    """
    kind = run.at(_FORMAT)
    if not run.on("checkpointing.enabled") or is_megatron(run) or kind is None:
        return
    if not is_v2(run):
        what = f"checkpointing.model_save_format is {quoted(kind)}, and dtensor_cfg._v2 is off"
        yield Finding(what, proposed={_FORMAT: None})
    elif str(kind).lower() not in ("safetensors", "torch_save"):
        what = f"checkpointing.model_save_format is {quoted(kind)}, expected safetensors or torch_save"
        yield Finding(what, keys=[_FORMAT])


@TOPIC.problem(
    "checkpointing.save_consolidated",
    fails=Fails.AT_CHECKPOINT,
    source="nemo_rl/utils/checkpoint.py:144 at v0.7.0",
    severity=WARNING,
)
def consolidated(run: RunConfig) -> str | None:
    """checkpoints are consolidated while they are saved

    Why: in several versions, saving consolidated weights runs out of memory or time, or writes broken shards
    Fix: set it to false, and run the convert task on the checkpoint that you keep
    """
    saves = run.on("checkpointing.enabled") and is_v2(run)
    return "checkpointing.save_consolidated is on" if saves and run.on("checkpointing.save_consolidated") else None


@TOPIC.problem(_BY, fails=Fails.AT_SETUP, source="nemo_rl/utils/timer.py:251 at v0.7.0")
def save_by(run: RunConfig) -> str | None:
    """checkpoint_must_save_by is not a string of days:hours:minutes:seconds

    Fix: use DD:HH:MM:SS in quotes: four hours are "00:04:00:00"
    """
    value = run.at(_BY)
    if value is None:
        return None
    parts = value.split(":") if isinstance(value, str) else []
    fits = len(parts) == _PARTS and all(part.strip().isdecimal() for part in parts)
    return None if fits else f"checkpoint_must_save_by is {quoted(value)}"


def _retries(run: RunConfig) -> int:
    value = run.value("job.retries")
    return value if isinstance(value, int) and run.trains else 0


@TOPIC.problem(
    f"{_BY} =job.retries", fails=Fails.SILENT, source="nemo_rl/algorithms/grpo.py:3123 at v0.7.0", severity=WARNING
)
def save_by_without_retry(run: RunConfig) -> str | None:
    """job.retries is set, but no retry continues a run that checkpoint_must_save_by ends

    Why: NeMo RL saves and ends with exit code 0: the job counts as complete, and no retry does the remaining steps
    Fix: remove the key, or set job.retries to 0 and raise job.attempt to continue the run
    """
    value, retries = run.at(_BY), _retries(run)
    if not isinstance(value, str) or retries < 1 or not run.on("checkpointing.enabled"):
        return None
    return f"checkpoint_must_save_by is {quoted(value)}, and job.retries is {retries}"


@TOPIC.problem(
    "checkpointing.save_optimizer =job.retries",
    fails=Fails.SILENT,
    source="nemo_rl/utils/checkpoint.py:185 at v0.7.0",
    severity=WARNING,
    since="v0.6.0",
)
def retry_without_optimizer(run: RunConfig) -> Iterator[Finding]:
    """retries resume from checkpoints without the optimizer

    Why: each retry starts with Adam's moments empty, so its first steps have the wrong size
    Fix: set checkpointing.save_optimizer to true, or job.retries to 0
    """
    path, retries = "checkpointing.save_optimizer", _retries(run)
    if retries > 0 and run.on("checkpointing.enabled") and run.at(path) is False:
        yield Finding(f"save_optimizer is false, and job.retries is {retries}", proposed={path: True})
