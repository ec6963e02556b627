"""The time of each step by phase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from grpo.report.runs.run import Run

REST: Final = "rest of the step"
# How many phases have a colour of their own: those that take the most time.
SHOWN: Final = 8


class Part(NamedTuple):
    """The seconds of a phase in a step."""

    step: int
    phase: str
    seconds: float


def longest(runs: Sequence[Run]) -> list[str]:
    """Return the phases that take the most time in all runs, the longest one first.

    A timer with a slash in its name is part of another one.
    """
    total: dict[str, float] = defaultdict(float)
    for run in runs:
        for step in run.steps:
            for name, seconds in step.phases.items():
                total[name] += seconds if "/" not in name else 0.0
    known = [name for name in total if total[name] > 0]
    return sorted(known, key=lambda name: (-total[name], name))[:SHOWN]


def parts(run: Run, names: Sequence[str]) -> Iterator[Part]:
    """Yield the time of each step by phase; the rest is what the time of the step has besides."""
    for step in run.steps:
        if step.seconds is None or not step.phases:
            continue
        known = {name: step.phases.get(name, 0.0) for name in names}
        yield from (Part(step.number, name, seconds) for name, seconds in known.items() if seconds > 0)
        if (rest := step.seconds - sum(known.values())) > 0:
            yield Part(step.number, REST, rest)


def overlap(run: Run, names: Sequence[str]) -> bool:
    """Return whether the phases of a run add up to clearly more than its steps: some run at the same time."""
    steps = [step for step in run.steps if step.seconds is not None]
    whole = sum(step.seconds or 0.0 for step in steps)
    return sum(step.phases.get(name, 0.0) for step in steps for name in names) > 1.02 * whole
