"""Read a training run to its end, judge each step, and report findings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from grpo.cli.watching.drawing import Screen
from grpo.cli.watching.guard import Judgement
from grpo.problems import registry
from grpo.problems.training.steps import Shown
from grpo.runlog.events import Found
from grpo.runlog.shared import ENDED, LOADING, Event, Judge, Phase, Sign, Step
from postrender.errors import Location
from postrender.finding import Finding
from postrender.judge import judge
from postrender.problem import LOG


class Watcher:
    """Show a training run's events, and the signs that its steps show.

    The signs in `judgement.stop_on` end the watch. `now` returns the time in seconds.
    """

    def __init__(self, screen: Screen, judgement: Judgement, now: Callable[[], float] = time.monotonic) -> None:
        self._screen, self._stop_on, self._now = screen, judgement.stop_on, now
        self._judge, self._last, self._at = Judge(judgement.limits), now(), Location("")
        # In how many steps in a row a sign was shown, by its name.
        self._shown: dict[str, int] = {}
        self._number, self._before = 0, ""
        self._numbers: set[int] = set()
        self._is_silent = False
        self.findings: list[Finding] = []

    @property
    def steps(self) -> int:
        """Return the number of steps shown; a resumed run repeats some."""
        return len(self._numbers)

    def watch(self, batches: Iterable[Sequence[Found]], *, live: bool) -> bool:
        """Read all events; return whether a sign in `stop_on` ended the watch. Only `live` checks for silence."""
        for batch in batches:
            if not batch and live and self._silence():
                return True
            for event, at in batch:
                if self._take(event, at):
                    return True
            self._screen.flush()
        return False

    def _take(self, event: Event, at: Location) -> bool:
        # Loading a model takes as long as it takes, and a training that has ended is silent.
        self._last, self._is_silent = self._now(), isinstance(event, Phase) and event.name in (LOADING, ENDED)
        if not self._is_repeated(event):
            self._screen.show(event)
        if not isinstance(event, Step):
            return False
        self._numbers.add(event.number)
        self._at = at
        self._tell(self._judge.add(event))
        more, self._number = int(event.number != self._number), event.number
        self._shown = {name: self._shown.get(name, 0) + more for name in self._judge.active}
        return any(count >= self._stop_on.get(name, math.inf) for name, count in self._shown.items())

    def _is_repeated(self, event: Event) -> bool:
        """Return whether the previous step or validation is the same; some outputs contain each line twice."""
        if isinstance(event, Phase):
            return False
        # As text, because a NaN equals nothing.
        before, self._before = self._before, repr(replace(event, line=0) if isinstance(event, Step) else event)
        return before == self._before

    def _silence(self) -> bool:
        """Report, once, that nothing has arrived for too long."""
        sign = None if self._is_silent else self._judge.silent(self._now() - self._last)
        self._is_silent = self._is_silent or sign is not None
        self._tell([sign] if sign else [])
        return sign is not None and sign.id in self._stop_on

    def _tell(self, signs: Sequence[Sign]) -> None:
        found = judge(Shown([(sign, self._at) for sign in signs]), registry.rules(LOG)) if signs else []
        for finding in found:
            self._screen.tell(finding)
        self.findings += found
