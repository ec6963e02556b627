"""Step times by phase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from grpo.report.runs.run import Run

REST: Final = "rest of the step"
# How many phases have a colour of their own: those that take the most time.
SHOWN: Final = 8


class Part(NamedTuple):
    """The seconds that one phase takes in one step."""

    step: int
    phase: str
    seconds: float


def longest(runs: Sequence[Run]) -> list[str]:
    """Return the phases that take the most time over all runs, the longest first.

    A timer with a slash in its name is part of another timer, so it is not counted.
    """
    total: dict[str, float] = defaultdict(float)
    for run in runs:
        for step in run.steps:
            for name, seconds in step.phases.items():
                total[name] += seconds if "/" not in name else 0.0
    known = [name for name in total if total[name] > 0]
    return sorted(known, key=lambda name: (-total[name], name))[:SHOWN]


def parts(run: Run, names: Sequence[str]) -> Iterator[Part]:
    """Yield each step's time by phase; the rest is the step time that no phase accounts for."""
    for step in run.steps:
        if step.seconds is None or not step.phases:
            continue
        known = {name: step.phases.get(name, 0.0) for name in names}
        yield from (Part(step.number, name, seconds) for name, seconds in known.items() if seconds > 0)
        if (rest := step.seconds - sum(known.values())) > 0:
            yield Part(step.number, REST, rest)


def overlap(run: Run, names: Sequence[str]) -> bool:
    """Return whether a run's phases add up to clearly more than its steps, because some run at the same time."""
    steps = [step for step in run.steps if step.seconds is not None]
    whole = sum(step.seconds or 0.0 for step in steps)
    return sum(step.phases.get(name, 0.0) for step in steps for name in names) > 1.02 * whole
