"""The figures of runs, and how they differ from run to run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import fmean, median
from typing import Final, NamedTuple

from grpo.report.runs.measures import MEASURES, SECONDS
from grpo.report.runs.run import Run
from grpo.runlog.shared import Limits

# A mean is of so many steps, at the start or at the end.
MEAN_STEPS: Final = 10
_BY_NAME: Final = {measure.name: measure for measure in (*MEASURES, SECONDS)}
_ABSENT: Final = "not in the log"
# Limits of the time without a step, which no report judges.
_OF_SILENCE: Final = ("silent_factor", "silent_seconds", "validation_seconds")
# Measures whose mean of the first and of the last steps is shown.
_AT_BOTH_ENDS: Final = (
    "reward",
    "length",
    "truncated",
    "kl",
    "generation_kl",
    "importance_ratio",
    "entropy",
    "grad_norm",
)


class Figure(NamedTuple):
    """One figure for each run, None if the run's log does not have it; `id` is its key in JSON."""

    id: str
    title: str
    values: Sequence[float | None]
    form: str

    def text(self, index: int) -> str:
        """Return a run's figure as text."""
        value = self.values[index]
        return _ABSENT if value is None else self.form.format(value)

    def difference(self, index: int) -> str:
        """Return how far a run's figure is above the first run's; empty if either run does not have it."""
        first, value = self.values[0], self.values[index]
        if first is None or value is None:
            return ""
        change = value - first
        size = self.form.format(abs(change))
        if not any(digit in size for digit in "123456789") and isfinite(change):
            return size
        signed = f"-{size}" if change < 0 else f"+{size}"
        return f"{signed} ({change / abs(first):+.0%})" if first and isfinite(change) else signed


def figures(runs: Sequence[Run]) -> list[Figure]:
    """Return all figures that at least one run has."""
    return [figure for figure in _all(runs) if any(value is not None for value in figure.values)]


def missing(run: Run) -> list[str]:
    """Return the titles of the measures that none of a run's steps has."""
    measures = (*MEASURES, SECONDS)
    titles = [measure.title for measure in measures if not run.values(measure.name)]
    phases = [] if any(step.phases for step in run.steps) else ["Time by phase"]
    return titles + phases + ([] if any(each.reward is not None for each in run.validations) else ["Validation"])


def notes(runs: Sequence[Run]) -> list[str]:
    """Return what a reader must know in order to compare the figures."""
    short = [run.name for run in runs if len(run.steps) < 2 * MEAN_STEPS]
    told = [f"{name} has fewer than {2 * MEAN_STEPS} steps: its first and last {MEAN_STEPS} overlap" for name in short]
    gaps = ((run, run.steps[-1].number - run.steps[0].number + 1 - len(run.steps)) for run in runs)
    told += [
        f"{run.name} does not have {count} of the steps between its first and its last" for run, count in gaps if count
    ]
    lasts = {run.steps[-1].number for run in runs}
    if len(lasts) > 1:
        told.append(f"the runs end at different steps, so their last {MEAN_STEPS} steps are not the same ones")
    if changed := _changed(runs[0].limits):
        told.append(f"the values files change from when on a measure is a sign: {', '.join(changed)}")
    return told


def _changed(limits: Limits) -> list[str]:
    """Return the limits in `job.guard.limits` that differ from the defaults; a report ignores those on silence."""
    usual = dataclasses.asdict(Limits())
    given = {name: value for name, value in dataclasses.asdict(limits).items() if name not in _OF_SILENCE}
    return [
        f"{_camel(name)} {value:g} (default {usual[name]:g})" for name, value in given.items() if value != usual[name]
    ]


def _all(runs: Sequence[Run]) -> Iterator[Figure]:
    yield Figure("steps", "Steps", [len(run.steps) for run in runs], "{:.0f}")
    yield Figure("firstStep", "First step", [run.steps[0].number for run in runs], "{:.0f}")
    yield Figure("lastStep", "Last step", [run.steps[-1].number for run in runs], "{:.0f}")
    yield Figure("seconds", "Time of all steps (s)", [_sum(run.values("seconds")) for run in runs], "{:.0f}")
    yield Figure("stepSeconds", "Time of a step, median (s)", [_median(run, "seconds") for run in runs], SECONDS.form)
    for name in _AT_BOTH_ENDS:
        measure = _BY_NAME[name]
        for which, cut in (("first", slice(None, MEAN_STEPS)), ("last", slice(-MEAN_STEPS, None))):
            title = f"{measure.label}, mean of the {which} {MEAN_STEPS}"
            values = [_mean(run.values(name)[cut]) for run in runs]
            yield Figure(f"{_camel(name)}{which.title()}Mean", title, values, measure.form)
    validated = [[each.reward for each in run.validations if each.reward is not None] for run in runs]
    form = _BY_NAME["reward"].form
    yield Figure("validationFirst", "Validation, first", [each[0] if each else None for each in validated], form)
    yield Figure("validationLast", "Validation, last", [each[-1] if each else None for each in validated], form)
    speed = _BY_NAME["tokens_per_second_per_gpu"]
    speeds = [_median(run, speed.name) for run in runs]
    yield Figure("tokensPerSecondPerGpu", f"{speed.title}, median ({speed.unit})", speeds, speed.form)
    yield Figure("memoryGib", "Memory of a GPU, highest (GiB)", [_highest(run) for run in runs], "{:.1f}")


def _sum(values: Sequence[float]) -> float | None:
    return sum(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _median(run: Run, name: str) -> float | None:
    values = run.values(name)
    return median(values) if values else None


def _highest(run: Run) -> float | None:
    return max(run.values("memory_gib"), default=None)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
