"""The points that a page draws for a run: its steps or, in a long run, the means of consecutive steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any, Final

from grpo.report.runs.run import Run
from grpo.runlog.shared import Step

# A graph is some 700 pixels wide; with every step of a long run the page was too large for a browser.
MOST: Final = 1000
_MEASURES: Final = [each.name for each in fields(Step) if each.name not in ("number", "line", "phases")]


def size(runs: Sequence[Run]) -> int:
    """Return how many steps each point represents, the same for all runs on a page: 1 up to MOST steps."""
    numbers = [step.number for run in runs for step in run.steps]
    return -(-(max(numbers) - min(numbers) + 1) // MOST)


def thin(run: Run, steps: int) -> Run:
    """Return a run with each group of consecutive steps averaged into one, numbered like the group's first step."""
    if steps == 1:
        return run
    groups = groupby(run.steps, key=lambda step: (step.number - 1) // steps)
    return replace(run, steps=[_mean(list(group)) for _, group in groups])


def _mean(steps: Sequence[Step]) -> Step:
    """Return the means of steps; if a value is NaN, so is its mean."""
    known: dict[str, Any] = {}
    for name in _MEASURES:
        values = [value for step in steps if (value := getattr(step, name)) is not None]
        # `fmean` raises an error for two infinite values.
        known[name] = sum(values) / len(values) if values else None
    # A phase that some steps do not have, such as a validation, took no time in them.
    names = dict.fromkeys(name for step in steps for name in step.phases)
    phases = {name: sum(step.phases.get(name, 0.0) for step in steps) / len(steps) for name in names}
    return Step(steps[0].number, steps[-1].line, **known, phases=phases)
