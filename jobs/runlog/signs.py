"""Signs in the steps of a run that it does not learn or will not go on; only the standard library is needed.

    judge = Judge()
    for step in steps:
        for sign in judge.add(step):  # signs that were not there at the step before
            ...
    judge.silent(seconds, phase)      # a run that prints nothing any more

A sign is found at the last step, from this one and the steps before. Its limits are in `Limits`, and the page of its
rule (`run/<id of the sign>`) says where they are from.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from steps import CHECKPOINT, LOADING, VALIDATION, Step

ERROR: Final = "error"
WARNING: Final = "warning"
# Steps that are remembered, and steps that are the start of a run.
REMEMBERED: Final = 200
START: Final = 5


class Sign(NamedTuple):
    """What is wrong, with its numbers: `id` names the sign, `step` is the number of the step that shows it."""

    id: str
    severity: str
    step: int
    what: str


@dataclass(frozen=True)
class Limits:
    """From when on a measure is a sign. Counts are steps in a row, factors compare with the median of steps before."""

    dead_steps: int = 3
    dead_loss: float = 1e-4
    collapse_steps: int = 10
    collapse_factor: float = 0.5
    length_steps: int = 3
    length_factor: float = 3.0
    length_short: float = 0.5
    truncated: float = 0.3
    kl: float = 0.5
    kl_factor: float = 10.0
    generation_kl: float = 0.01
    entropy_factor: float = 0.1
    entropy: float = 0.02
    solved: float = 0.9
    grad_norm: float = 1.0
    grad_norm_factor: float = 10.0
    ratio_low: float = 0.95
    ratio_high: float = 1.05
    time_factor: float = 2.0
    silent_factor: float = 10.0
    silent_seconds: float = 1800.0


class History:
    """The first steps of a run and the last ones, the newest last; a step of before a resume that is repeated goes."""

    def __init__(self) -> None:
        self.first: list[Step] = []
        self.last: deque[Step] = deque(maxlen=REMEMBERED)

    def add(self, step: Step) -> None:
        """Append a step; drop those with its number or a higher one, which it replaces."""
        while self.last and self.last[-1].number >= step.number:
            self.last.pop()
        self.first = [one for one in self.first if one.number < step.number]
        self.last.append(step)
        if len(self.first) < START:
            self.first.append(step)

    def now(self, name: str, count: int) -> list[float]:
        """Return a measure of the last `count` steps, oldest first; nothing if one of them lacks it."""
        return known(list(self.last)[-count:], name, count) if len(self.last) >= count else []

    def before(self, name: str, count: int, skip: int) -> list[float]:
        """Return what is known of a measure in the `count` steps before the last `skip`."""
        return known(list(self.last)[:-skip][-count:], name)

    def start(self, name: str, skip: int) -> list[float]:
        """Return a measure of the first steps; nothing if they overlap the last `skip` or lack it."""
        if len(self.first) < START or len(self.last) < START + skip:
            return []
        return known(self.first, name, START)


def known(steps: list[Step], name: str, count: int = 0) -> list[float]:
    """Return the finite values of a measure; nothing if there are fewer than `count`."""
    values = [value for step in steps if (value := getattr(step, name)) is not None and math.isfinite(value)]
    return values if len(values) >= count else []


def not_a_number(history: History, limits: Limits) -> str:
    """Find a measure that is NaN or infinite."""
    del limits
    step = history.last[-1]
    names = ("loss", "grad_norm", "reward", "kl")
    found = [f"{name} is {value}" for name in names if (value := getattr(step, name)) is not None and not math.isfinite(value)]
    return " and ".join(found)


SIGNS: Final[dict[str, tuple[str, Callable[[History, Limits], str]]]] = {
    "not-a-number": (ERROR, not_a_number),
}


class Judge:
    """Judge the steps of a run one by one."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits, self.history = limits or Limits(), History()
        self.active: set[str] = set()

    def add(self, step: Step) -> list[Sign]:
        """Add a step; return the signs that it shows and the step before did not."""
        self.history.add(step)
        found = [
            Sign(name, severity, step.number, what)
            for name, (severity, check) in SIGNS.items()
            if (what := check(self.history, self.limits))
        ]
        new = [sign for sign in found if sign.id not in self.active]
        self.active = {sign.id for sign in found}
        return new

    def silent(self, seconds: float, phase: str) -> Sign | None:
        """Return the sign of a run that has printed no event for some seconds in this phase, or None.

        A run that loads, or that has no complete step yet, has no time to compare with.
        """
