"""How long training may print nothing that its reader understands: a deadline for each phase of a run.

The deadline is the minimum from the values, or `factor` times the phase's median duration so far in this run.
"""

from __future__ import annotations

import statistics
from typing import Final

from steps import CHECKPOINT, ENDED, LOADING, STEP, VALIDATION, Event, Phase, Step

# A start compiles in its first step, so this step has a floor of its own.
FIRST: Final = "first step"
FLOORS: Final = {
    LOADING: "loadingSeconds",
    FIRST: "firstStepSeconds",
    STEP: "stepSeconds",
    CHECKPOINT: "checkpointSeconds",
    VALIDATION: "validationSeconds",
}
# A longer look back is a pause of the launcher or its machine, in which the trainer had no time either.
LONGEST_TICK_SECONDS: Final = 10.0


class Heartbeat:
    """A trainer's silence, in seconds that this program counts itself, so that clock jumps have no effect."""

    def __init__(self, seconds: dict[str, float], factor: float, unseen: set[str]) -> None:
        self.floors = {phase: float(seconds[key]) for phase, key in FLOORS.items()}
        # A run that has ended may still write and upload its results.
        self.floors[ENDED] = self.floors[LOADING]
        # Phases that the framework may not announce; one is removed when it is seen.
        self.factor, self.unseen = factor, unseen
        self.times: dict[str, list[float]] = {}
        # Whether a whole step was ever understood.
        self.stepped = False
        self.begin()

    def begin(self) -> None:
        """Record the start of a trainer."""
        self.phase, self.fresh, self.longest = LOADING, True, 0.0
        self.since_event = self.since_new_output = 0.0

    def tick(self, seconds: float) -> None:
        """Add the seconds since the last check."""
        self.since_event += min(seconds, LONGEST_TICK_SECONDS)
        self.since_new_output += min(seconds, LONGEST_TICK_SECONDS)

    def hear(self) -> None:
        """Record new output, understood or not."""
        self.since_new_output = 0.0

    def beat(self, event: Event) -> None:
        """Record an event from the reader, and how long the preceding phase took."""
        if self.phase in (FIRST, STEP):
            self.longest = max(self.longest, self.since_event)
        elif self.phase != ENDED:
            self.times.setdefault(self.phase, []).append(self.since_event)
        if isinstance(event, Step):
            self.times.setdefault(STEP, []).append(self.longest)
            self.longest, self.fresh, self.stepped = 0.0, False, True
        name = event.name if isinstance(event, Phase) else STEP
        self.unseen.discard(name)
        self.phase = FIRST if name == STEP and self.fresh else name
        self.since_event = 0.0

    def deadline(self) -> float:
        """Return the seconds of silence after which the phase is considered stalled."""
        floor, works = self.floors[self.phase], self.phase in (FIRST, STEP)
        if works:
            floor += sum(self.floors[phase] for phase in self.unseen)
        before = self.times.get(STEP if works else self.phase)
        return max(floor, self.factor * statistics.median(before) if before else 0.0)

    def overdue(self) -> bool:
        """Return whether the deadline has passed without a line that the reader understands."""
        return self.since_event > self.deadline()

    def silence(self) -> float:
        """Return the seconds without a sign of life; until a step has been understood, any new output is one."""
        return self.since_event if self.stepped else min(self.since_event, self.since_new_output)
