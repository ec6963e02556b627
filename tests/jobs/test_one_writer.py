"""A law: whatever happens to the pods of a run and to its volume, no two trainers of the run work at the same time."""

from __future__ import annotations

import errno
import itertools
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Points

from .conftest import memory
from .harness import LAPSE
from .simulation.machine import Launch, Machine
from .simulation.processes import Process

BEAT = LAPSE / 8
STOPPED = "histories with a launcher stopped for longer than the lapse"
# Seconds until the next event, the event, and how long it lasts.
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, BEAT / 3, BEAT, LAPSE / 2, LAPSE * 1.2, LAPSE * 2]),
        st.sampled_from(["start", "stop", "kill", "freeze", "freeze launcher", "hang", "fail", "hang all"]),
        st.sampled_from([BEAT, LAPSE / 2, LAPSE * 1.2, LAPSE * 2, LAPSE * 3]),
    ),
    min_size=1,
    max_size=6,
)


def is_trainer(process: Process) -> bool:
    """Return whether a process is not a launcher, and not the fence, which leads the trainer's group."""
    return process.parent is not None and process.pid != process.group


class Scenario:
    """Launches of one run, each in a pod of its own, and what happens to them."""

    def __init__(self, folder: Path, deaf: bool) -> None:
        self.machine = Machine(folder)
        # Whether the trainers ignore SIGTERM.
        self.trap = "trap '' TERM; " if deaf else ""
        self.machine.environment["GRPO_OWNER_BEAT_SECONDS"] = str(BEAT)
        self.frozen: list[tuple[Process, float, float]] = []

    def start(self) -> Launch:
        attempt = len(self.machine.launches) + 1
        plan = self.machine.plan(
            attempt, command=["sh", "-c", f"{self.trap}sleep {6 * LAPSE}"], takeoverSeconds=100 * LAPSE
        )
        launch: Launch = self.machine.start_plan(plan)
        return launch

    def owner(self) -> Launch:
        """Return the launch whose trainer works, the last one if there is none."""
        launches: list[Launch] = self.machine.launches
        return next((each for each in launches if self.trainer_of(each.process)), launches[-1])

    def trainer_of(self, pod: Process) -> Process | None:
        return next((each for each in self.processes() if each.parent is pod and each.alive and is_trainer(each)), None)

    def happen(self, event: str, seconds: float) -> None:
        """Let an event happen to the owner of the run now, and end after some seconds."""
        launch = self.owner()
        pod, volume = launch.process, self.machine.volume
        if event == "start":
            self.start()
        elif not pod.alive or pod.frozen:
            return
        elif event in ("stop", "kill"):
            launch.signal(signal.SIGTERM if event == "stop" else signal.SIGKILL)
        elif event == "freeze":
            self.freeze([each for each in self.processes() if pod in (each, each.parent)], seconds)
        elif event == "freeze launcher":
            self.freeze([pod], seconds)
        elif event == "fail":
            volume.fail("owner.json", errno.EIO, pod)
            self.later(seconds, lambda: volume.answer(pod))
        else:
            where = pod if event == "hang" else None
            volume.hang("owner.json", pod=where)
            self.later(seconds, lambda: volume.answer(where))

    def freeze(self, processes: list[Process], seconds: float) -> None:
        """Stop a whole pod, as a node does that runs out of memory or a machine that moves, or one process of it."""
        members = [each for each in processes if each.alive]
        for each in members:
            self.frozen.append((each, self.machine.now(), self.machine.now() + seconds))
            each.frozen = True

        def thaw() -> None:
            for each in members:
                each.frozen = False

        self.later(seconds, thaw)

    def later(self, seconds: float, action: Any) -> None:
        def wait() -> None:
            self.machine.sleep(seconds)
            action()

        self.machine.start_task(wait)

    def processes(self) -> list[Process]:
        return list(self.machine.table.processes.values())

    def outlasts(self) -> bool:
        """Return whether a launcher was stopped for longer than the lapse."""
        return any(each.parent is None and end - begin > LAPSE for each, begin, end in self.frozen)

    def spans(self) -> list[tuple[float, float, int]]:
        """Return when trainers worked: from their start to their end, but not while they were frozen."""
        spans = []
        for process in self.processes():
            if not is_trainer(process):
                continue
            working = [process.started, process.ended]
            for other, begin, end in self.frozen:
                if other is process:
                    working += [min(begin, process.ended), min(end, process.ended)]
            working.sort()
            pairs = zip(working[::2], working[1::2], strict=True)
            spans += [(begin, end, process.pid) for begin, end in pairs if begin < end]
        return sorted(spans)


@pytest.mark.parametrize("histories", [20, pytest.param(300, marks=pytest.mark.full)])
def test_two_trainers_never_run_at_the_same_time(points: Points, histories: int) -> None:
    @settings(max_examples=histories)
    @given(EVENTS, st.booleans())
    def law(events: list[tuple[float, str, float]], deaf: bool) -> None:
        with tempfile.TemporaryDirectory(prefix="grpo-machine-", dir=memory()) as folder:
            scenario = Scenario(Path(folder), deaf)
            try:
                play(scenario, events)
            finally:
                scenario.machine.close()
            points.add(STOPPED if scenario.outlasts() else "other histories")

    law()


def play(scenario: Scenario, events: list[tuple[float, str, float]]) -> None:
    """Let a run go through a history, then train to its end; no two of its trainers may have worked at once."""
    machine = scenario.machine
    scenario.start()
    machine.sleep(BEAT)
    # A successor waits from the beginning.
    scenario.start()
    for pause, event, seconds in events:
        machine.sleep(pause)
        scenario.happen(event, seconds)
    machine.sleep(LAPSE)
    # The last attempt gets the run, and trains to its end.
    last = scenario.start()
    assert last.wait() == 0, last.output
    for (_, end, first), (begin, _, second) in itertools.pairwise(scenario.spans()):
        assert end <= begin, f"trainers {first} and {second} worked at the same time"
