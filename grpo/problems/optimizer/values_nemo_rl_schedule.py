"""The learning rate over the run: milestones, factors, and a warm-up that ends before the run does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC, TRIAL
from grpo.problems.optimizer.values_nemo_rl import SCHEDULER, entries
from grpo.values.frameworks.nemo_rl import MEGATRON, is_megatron
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_STEPS: Final = "grpo.max_num_steps"
_MEGATRON_WARM_UP: Final = f"{MEGATRON}.scheduler.lr_warmup_iters"
# A cosine that runs on for a tenth of its length is still near its lowest value.
_FLAT: Final = 1.1
# Arguments of schedules, with the values that torch takes.
_FACTORS: Final = (
    ("LinearLR", "start_factor", "more than 0, and at most 1"),
    ("LinearLR", "end_factor", "0 to 1"),
    ("ConstantLR", "factor", "0 to 1"),
)


@TOPIC.problem(
    SCHEDULER,
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:844 at v0.7.0, torch/optim/lr_scheduler.py:1151 at 2.11.0",
)
def schedule_milestones(run: RunConfig) -> Iterator[Finding]:
    """policy.scheduler has no schedule, or the wrong number of milestones

    Fix: end the list with milestones: one fewer than it has schedules, [] for a single schedule
    """
    listed = run.at(SCHEDULER)
    if is_megatron(run) or not isinstance(listed, list):
        return
    schedules = [entry for entry in listed if isinstance(entry, dict) and "name" in entry]
    others = [at for at, entry in enumerate(listed) if isinstance(entry, dict) and "name" not in entry]
    if not schedules:
        yield Finding("policy.scheduler is a list without a schedule")
    elif not others:
        number = f"{len(schedules)} schedule{'s' if len(schedules) > 1 else ''}"
        yield Finding(f"policy.scheduler is a list of {number} without milestones")
    else:
        path = f"{SCHEDULER}.{others[-1]}.milestones"
        milestones = run.at(path)
        if isinstance(milestones, list) and len(milestones) != len(schedules) - 1:
            what = f"policy.scheduler has {len(schedules)} schedules, and milestones {quoted(milestones)}"
            yield Finding(f"{what}, expected {len(schedules) - 1}", keys=[path, SCHEDULER])


@TOPIC.problem(SCHEDULER, fails=Fails.AT_LOADING, source="torch/optim/lr_scheduler.py:921 at 2.11.0")
def schedule_factor(run: RunConfig) -> Iterator[Finding]:
    """a factor of a learning rate schedule is outside the range that torch accepts

    Fix: use a number in that range; 1.0e-8 starts near 0
    """
    for entry in entries(run):
        for short, name, wanted in _FACTORS:
            path = f"{entry.path}.kwargs.{name}"
            if entry.is_schedule and entry.short == short and isinstance(entry.kwargs, dict) and name in entry.kwargs:
                value = run.number(path)
                if value > 1 or value < 0 or (value == 0 and name == "start_factor"):
                    what = f"{entry.words}: {name} of {short} is {quoted(value)}, expected {wanted}"
                    yield Finding(what, keys=[path, *entry.keys])


@TOPIC.problem(
    f"{SCHEDULER} {_MEGATRON_WARM_UP} {_STEPS}",
    fails=Fails.SILENT,
    source="nemo_rl/models/policy/workers/dtensor_policy_worker_v2.py:557 at v0.7.0",
    severity=WARNING,
)
def warm_up_longer_than_run(run: RunConfig) -> Iterator[Finding]:
    """the warm-up of the learning rate is longer than the run

    Why: the learning rate never reaches the configured value, so the model learns less
    Fix: shorten the warm-up, or train for more steps
    """
    steps = run.integer(_STEPS)
    if is_megatron(run):
        if run.integer(_MEGATRON_WARM_UP) > steps > TRIAL:
            what = f"the warm-up takes {run.integer(_MEGATRON_WARM_UP)} steps, and the run has {steps}"
            yield Finding(what, keys=[_MEGATRON_WARM_UP, _STEPS])
        return
    first = next((entry for entry in entries(run) if entry.is_schedule), None)
    if first is None or first.short != "LinearLR" or not isinstance(first.kwargs, dict):
        return
    start, end = (run.number(f"{first.path}.kwargs.{name}_factor") for name in ("start", "end"))
    length = run.integer(f"{first.path}.kwargs.total_iters")
    if start < end and length > steps > TRIAL:
        what = f"the warm-up takes {length} steps, and the run has {steps}"
        yield Finding(what, keys=[f"{first.path}.kwargs.total_iters", SCHEDULER, _STEPS])


@TOPIC.problem(
    SCHEDULER, fails=Fails.SILENT, source="torch/optim/lr_scheduler.py (SequentialLR) at 2.11.0", severity=WARNING
)
def warm_up_cut_short(run: RunConfig) -> Iterator[Finding]:
    """the schedule after the warm-up starts before the warm-up ends

    Why: the learning rate jumps at the milestone, which the warm-up was meant to prevent
    Fix: use the warm-up's total_iters as the first milestone
    """
    schedules, ends = [entry for entry in entries(run) if entry.is_schedule], _milestones_of(run)
    if is_megatron(run) or len(schedules) < 2 or not ends or schedules[0].short != "LinearLR":
        return
    first = schedules[0]
    if isinstance(first.kwargs, dict) and 0 < ends[0] < run.integer(f"{first.path}.kwargs.total_iters"):
        start, end = (run.number(f"{first.path}.kwargs.{name}_factor") for name in ("start", "end"))
        length = run.integer(f"{first.path}.kwargs.total_iters")
        if start < end:
            at = f"at {start + (end - start) * ends[0] / length:.2g} of the learning rate"
            what = f"the warm-up takes {length} steps, and the milestone {ends[0]} ends it {at}"
            yield Finding(what, keys=[f"{first.path}.kwargs.total_iters", *first.keys, SCHEDULER])


@TOPIC.problem(
    f"{SCHEDULER} {_STEPS}",
    fails=Fails.SILENT,
    source="torch/optim/lr_scheduler.py (CosineAnnealingLR) at 2.11.0",
    severity=WARNING,
)
def cosine_rises_again(run: RunConfig) -> Iterator[Finding]:
    """a cosine schedule ends before the run, and then rises again

    Why: torch's cosine is periodic, so after T_max steps the learning rate rises to its peak again
    Fix: set T_max to the steps from the schedule's start to grpo.max_num_steps
    """
    # A run without a number of steps of its own ends with its data.
    steps = run.integer(_STEPS) if run.given_has(_STEPS) else 0
    schedules = [entry for entry in entries(run) if entry.is_schedule]
    ends = [*_milestones_of(run)[: len(schedules) - 1], steps]
    for entry, start, end in zip(schedules, [0, *ends], ends, strict=False):
        if entry.short != "CosineAnnealingLR" or not isinstance(entry.kwargs, dict):
            continue
        path, length = f"{entry.path}.kwargs.T_max", min(end, steps) - start
        half = run.integer(path)
        # Just after its end the curve is flat.
        if 0 < half * _FLAT < length:
            what = f"T_max is {half}, and the schedule runs for {length} steps"
            yield Finding(what, keys=[path, *entry.keys, _STEPS], fix=f"write T_max: {length}")


def _milestones_of(run: RunConfig) -> list[int]:
    """Return the steps at which one schedule follows another."""
    listed = run.at(SCHEDULER)
    given = [entry.get("milestones") for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    found = next((each for each in given if isinstance(each, list)), [])
    return [step for step in found if isinstance(step, int)]
