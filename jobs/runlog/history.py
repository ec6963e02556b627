"""The steps of a run that its signs are found in."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from steps import Step

# Steps that are remembered, and the first ones, which are the start of a run.
REMEMBERED: Final = 200
START: Final = 5


class History:
    """The first steps of a run and the last ones, oldest first; a step that a resumed run repeats is counted once."""

    def __init__(self) -> None:
        self.first: list[Step] = []
        self.steps: list[Step] = []
        # The measures of these steps, by name: None is unknown, NaN or infinite.
        self.measures: dict[str, list[float | None]] = {name: [] for name in vars(Step(0))}

    def add(self, step: Step) -> None:
        """Append a step; drop those with its number and after, which the run repeats."""
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
        """Return a measure of the last steps; nothing if one of them lacks it."""
        return _all(self.measures[name][-count:], count)

    def before(self, name: str, skip: int, last: int = REMEMBERED) -> list[float]:
        """Return what is known of a measure in the steps before the last `skip` ones, the `last` of them."""
        end = len(self.steps) - skip
        return [value for value in self.measures[name][max(0, end - last) : max(0, end)] if value is not None]

    def start(self, name: str, skip: int) -> list[float]:
        """Return a measure of the first steps; nothing if they overlap the last `skip` ones, or lack it."""
        overlaps = len(self.first) < START or len(self.steps) < START + skip
        return [] if overlaps else _all([_known(getattr(step, name)) for step in self.first], START)

    def phase(self, name: str) -> list[float]:
        """Return the seconds of a phase in the steps that have it."""
        return [step.phases[name] for step in self.steps if name in step.phases]


def _known(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _all(values: list[float | None], count: int) -> list[float]:
    found = [value for value in values if value is not None]
    return found if len(found) == count else []
