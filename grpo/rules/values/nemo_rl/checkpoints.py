"""Checkpoints: the metric that ranks them, their format, and when they are due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.rules.values.checks import quoted
from grpo.rules.values.nemo_rl.run import CHECKPOINT, SETUP, TOPIC, TRIAL
from grpo.values.frameworks.nemo_rl import DTENSOR, is_megatron, is_v2
from postrender.finding import WARNING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import Effective

_METRIC = "checkpointing.metric_name"
_FORMAT = "checkpointing.model_save_format"
_BY = "checkpointing.checkpoint_must_save_by"
# The metrics of validation, if no environment adds its own.
_METRICS = ("accuracy", "avg_length")
_PARTS = 4


def _metric(run: Effective) -> str | None:
    """Return the metric that ranks checkpoints; None if none are saved, or if no metric ranks them."""
    name = run.at(_METRIC)
    return str(name) if run.on("checkpointing.enabled") and name is not None else None


@TOPIC.rule(
    "metric-prefix",
    "S2",
    _METRIC,
    title="the metric of checkpoints begins with val: or train:",
    why=CHECKPOINT,
    fix="write val:accuracy, another metric with its prefix, or null",
    source="nemo_rl/algorithms/grpo.py:2901 at v0.7.0",
)
def _prefix(run: Effective) -> Iterator[Finding]:
    name = _metric(run)
    if name is not None and not name.startswith(("val:", "train:")):
        known = {"val_reward": "val:accuracy", "accuracy": "val:accuracy", "val_accuracy": "val:accuracy"}.get(name)
        yield Finding(f'checkpointing.metric_name is "{name}"', proposed={_METRIC: known} if known else {})


@TOPIC.rule(
    "no-checkpoint",
    "S73",
    "checkpointing.enabled",
    title="the run writes a checkpoint",
    why="silent: no step is saved, not even the last one, so the trained model is lost when the job ends",
    fix="set checkpointing.enabled to true; the last step is then saved whatever the save_period",
    source="nemo_rl/algorithms/grpo.py:2883 at v0.7.0",
    severity=WARNING,
)
def _never(run: Effective) -> str | None:
    steps = run.integer("grpo.max_num_steps")
    # A short run is a trial.
    if run.at("checkpointing.enabled") is not False or steps <= TRIAL:
        return None
    return f"checkpointing.enabled is false, and the run has up to {steps} steps"


@TOPIC.rule(
    "metric-unknown",
    "S3",
    _METRIC,
    title="the metric of checkpoints is one that validation computes",
    why=CHECKPOINT,
    fix="write val:accuracy",
    source="nemo_rl/algorithms/grpo.py:2920 at v0.7.0",
)
def _unknown(run: Effective) -> Iterator[Finding]:
    prefix, _, name = (_metric(run) or "").partition(":")
    if prefix == "val" and name not in _METRICS and not run.on("env.should_use_nemo_gym"):
        what = f'checkpointing.metric_name is "val:{name}", and validation computes {" and ".join(_METRICS)}'
        yield Finding(what, proposed={_METRIC: "val:accuracy"})


@TOPIC.rule(
    "saved-without-validation",
    "W15",
    "checkpointing.save_period grpo.val_period",
    title="each step that saves a checkpoint also validates",
    why="silent: a checkpoint without validation ranks below all others and is deleted, even if it is the best",
    fix="choose a save_period that is a multiple of grpo.val_period",
    source="nemo_rl/algorithms/grpo.py:2912 at v0.7.0",
    severity=WARNING,
)
def _periods(run: Effective) -> Iterator[Finding]:
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


@TOPIC.rule(
    "save-format",
    "S4",
    f"{_FORMAT} {DTENSOR}._v2",
    title="the format of checkpoints is one that the worker can write",
    why=CHECKPOINT,
    fix="write null with dtensor_cfg._v2 off, safetensors or torch_save with it on",
    source="nemo_rl/models/policy/lm_policy.py:1083 at v0.7.0",
)
def _format(run: Effective) -> Iterator[Finding]:
    kind = run.at(_FORMAT)
    if not run.on("checkpointing.enabled") or is_megatron(run) or kind is None:
        return
    if not is_v2(run):
        what = f"checkpointing.model_save_format is {quoted(kind)}, and dtensor_cfg._v2 is off"
        yield Finding(what, proposed={_FORMAT: None})
    elif str(kind).lower() not in ("safetensors", "torch_save"):
        what = f"checkpointing.model_save_format is {quoted(kind)}, expected safetensors or torch_save"
        yield Finding(what, keys=[_FORMAT])


@TOPIC.rule(
    "consolidated",
    "P3",
    "checkpointing.save_consolidated",
    title="checkpoints are not consolidated while they are saved",
    why="in several versions, saving consolidated weights runs out of memory or time, or writes broken shards",
    fix="set it to false, and run task convert on the checkpoint that you keep",
    source="nemo_rl/utils/checkpoint.py:144 at v0.7.0",
    severity=WARNING,
)
def _consolidated(run: Effective) -> str | None:
    saves = run.on("checkpointing.enabled") and is_v2(run)
    return "checkpointing.save_consolidated is on" if saves and run.on("checkpointing.save_consolidated") else None


@TOPIC.rule(
    "save-by",
    "S5",
    _BY,
    title="checkpoint_must_save_by is days:hours:minutes:seconds, in quotes",
    why=SETUP,
    fix='write DD:HH:MM:SS in quotes: four hours are "00:04:00:00"',
    source="nemo_rl/utils/timer.py:251 at v0.7.0",
)
def _save_by(run: Effective) -> str | None:
    value = run.at(_BY)
    if value is None:
        return None
    parts = value.split(":") if isinstance(value, str) else []
    fits = len(parts) == _PARTS and all(part.strip().isdecimal() for part in parts)
    return None if fits else f"checkpoint_must_save_by is {quoted(value)}"


def _retries(run: Effective) -> int:
    value = run.value("job.retries")
    return value if isinstance(value, int) and run.trains else 0


@TOPIC.rule(
    "save-by-without-retry",
    "S69",
    f"{_BY} =job.retries",
    title="a run that ends itself after a time is continued by a person, not by job.retries",
    why="silent: NeMo RL saves and ends with exit code 0, so the job is complete, and no retry does the steps left",
    fix="remove the key, or set job.retries to 0 and raise job.attempt to continue the run",
    source="nemo_rl/algorithms/grpo.py:3123 at v0.7.0",
    severity=WARNING,
)
def _ends(run: Effective) -> str | None:
    value, retries = run.at(_BY), _retries(run)
    if not isinstance(value, str) or retries < 1 or not run.on("checkpointing.enabled"):
        return None
    return f"checkpoint_must_save_by is {quoted(value)}, and job.retries is {retries}"


@TOPIC.rule(
    "retry-without-optimizer",
    "S70",
    "checkpointing.save_optimizer =job.retries",
    title="checkpoints that a retry resumes from contain the optimizer",
    why="silent: each retry begins with empty moments of Adam, so its first steps are of the wrong size",
    fix="set checkpointing.save_optimizer to true, or job.retries to 0",
    source="nemo_rl/utils/checkpoint.py:185 at v0.7.0",
    severity=WARNING,
    since="v0.6.0",
)
def _without_optimizer(run: Effective) -> Iterator[Finding]:
    path, retries = "checkpointing.save_optimizer", _retries(run)
    if retries > 0 and run.on("checkpointing.enabled") and run.at(path) is False:
        yield Finding(f"save_optimizer is false, and job.retries is {retries}", proposed={path: True})
