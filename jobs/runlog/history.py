"""The steps of a run that its signs are found in."""

from __future__ import annotations

from math import isfinite
from typing import Final

from steps import Step

# Steps that are remembered, and the first ones, which are the start of a run.
REMEMBERED: Final = 200
START: Final = 5


class History:
    """The first steps of a run and the last ones, oldest first; a step that a resumed run repeats is counted once."""

    def __init__(self) -> None:
        self.first: list[Step] = []
        self.steps: list[Step] = []

    def add(self, step: Step) -> None:
        """Append a step; drop those with its number and after, which the run repeats."""
        while self.steps and self.steps[-1].number >= step.number:
            self.steps.pop()
        self.steps = [*self.steps[-REMEMBERED + 1 :], step]
        self.first = [one for one in self.first if one.number < step.number]
        if len(self.first) < START:
            self.first.append(step)

    def last(self, name: str, count: int) -> list[float]:
        """Return a measure of the last steps; nothing if one of them lacks it."""
        return _all(self.steps[-count:], name, count)

    def before(self, name: str, skip: int, last: int = REMEMBERED) -> list[float]:
        """Return what is known of a measure in the steps before the last `skip` ones, the `last` of them."""
        return _known(self.steps[: len(self.steps) - skip][-last:], name)

    def start(self, name: str, skip: int) -> list[float]:
        """Return a measure of the first steps; nothing if they overlap the last `skip` ones, or lack it."""
        overlaps = len(self.first) < START or len(self.steps) < START + skip
        return [] if overlaps else _all(self.first, name, START)

    def phase(self, name: str) -> list[float]:
        """Return the seconds of a phase in the steps that have it."""
        return [step.phases[name] for step in self.steps if name in step.phases]


def _known(steps: list[Step], name: str) -> list[float]:
    return [value for step in steps if (value := getattr(step, name)) is not None and isfinite(value)]


def _all(steps: list[Step], name: str, count: int) -> list[float]:
    found = _known(steps, name)
    return found if len(found) == count else []
