"""The steps of a run in which its signs are found."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from steps import Step

# Steps that are remembered, and the first ones, which are the start of a run.
REMEMBERED: Final = 200
START: Final = 5


class History:
    """A run's first and last steps, oldest first; a step that a resumed run repeats is kept only once."""

    def __init__(self) -> None:
        self.first: list[Step] = []
        self.steps: list[Step] = []
        # The measures of these steps, by name: None is unknown, NaN or infinite.
        self.measures: dict[str, list[float | None]] = {name: [] for name in vars(Step(0))}

    def add(self, step: Step) -> None:
        """Append a step; drop the steps from its number on, which the run is repeating."""
        kept = len(self.steps)
        while kept and self.steps[kept - 1].number >= step.number:
            kept -= 1
        oldest = max(0, kept - REMEMBERED + 1)
        lists: list[list[Any]] = [self.steps, *self.measures.values()]
        for values in lists:
            del values[kept:], values[:oldest]
        self.steps.append(step)
        for name, value in vars(step).items():
            self.measures[name].append(_known(value))
        self.first = [one for one in self.first if one.number < step.number]
        if len(self.first) < START:
            self.first.append(step)

    def last(self, name: str, count: int) -> list[float]:
        """Return a measure's values in the last steps; empty if any of these steps lacks it."""
        return _all(self.measures[name][-count:], count)

    def before(self, name: str, skip: int, last: int = REMEMBERED) -> list[float]:
        """Return a measure's known values in the `last` steps before the final `skip` steps."""
        end = len(self.steps) - skip
        return [value for value in self.measures[name][max(0, end - last) : max(0, end)] if value is not None]

    def start(self, name: str, skip: int) -> list[float]:
        """Return a measure's values in the first steps; empty if one lacks it or they overlap the last `skip` steps."""
        overlaps = len(self.first) < START or len(self.steps) < START + skip
        return [] if overlaps else _all([_known(getattr(step, name)) for step in self.first], START)

    def phase(self, name: str) -> list[float]:
        """Return a phase's duration in seconds in each step that has it."""
        return [step.phases[name] for step in self.steps if name in step.phases]


def _known(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _all(values: list[float | None], count: int) -> list[float]:
    found = [value for value in values if value is not None]
    return found if len(found) == count else []
