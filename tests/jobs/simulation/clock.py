"""Virtual time: tasks run one at a time, and the clock jumps to the next moment for which a task waits."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

NEVER = float("inf")
# A test that waits for what never happens ends here: more virtual seconds than any scenario has.
LIMIT = 1e6


class Host(Protocol):
    """What tasks belong to: while it is frozen none of them runs."""

    frozen: bool


class Task(greenlet):
    """A thread of a simulated process."""

    def __init__(self, clock: Clock, host: Host, function: Callable[[], Any]) -> None:
        super().__init__(function, parent=clock.hub)
        self.host, self.wake_at, self.order = host, clock.moment, next(clock.numbers)


class Clock:
    """A clock and the tasks that wait for it. The greenlet that creates it is the test."""

    def __init__(self) -> None:
        self.moment, self.hub, self.numbers = 0.0, getcurrent(), itertools.count()
        self.tasks: list[Task] = []
        self.over = False

    def start(self, host: Host, function: Callable[[], Any]) -> Task:
        """Let a function run as a task from now on."""
        self.tasks.append(Task(self, host, function))
        return self.tasks[-1]

    def wait(self, seconds: float) -> None:
        """Let the current task wait; without a task, as in a test, let the others run meanwhile."""
        task = getcurrent()
        if not isinstance(task, Task):
            end = self.moment + seconds
            while self.step(end):
                pass
            self.moment = end
            return
        if self.over:
            raise GreenletExit
        # The order of those who wait for the same moment is the order in which they began to wait.
        task.wake_at, task.order = self.moment + seconds, next(self.numbers)
        self.hub.switch()

    def wake(self, task: Task) -> None:
        """Let a task that waits go on now."""
        task.wake_at = min(task.wake_at, self.moment)

    def step(self, end: float = NEVER) -> bool:
        """Run the task that is due next; return False if there is none before `end`."""
        ready = [task for task in self.tasks if not task.host.frozen and task.wake_at < NEVER]
        if not ready:
            return False
        task = min(ready, key=lambda each: (each.wake_at, each.order))
        if task.wake_at > end:
            return False
        self.moment = max(self.moment, task.wake_at)
        task.wake_at = NEVER
        task.switch()
        if task.dead and task in self.tasks:
            self.tasks.remove(task)
        return True

    def run_until(self, condition: Callable[[], object], what: str) -> None:
        """Let the tasks run until the condition holds; raise AssertionError if it never does."""
        limit = self.moment + LIMIT
        while not condition():
            assert self.step(limit), f"waited in vain: {what}"

    def close(self, dead: list[Task]) -> None:
        """End all tasks, so that nothing of them runs when they are collected as garbage."""
        self.over = True
        for task in [*self.tasks, *dead]:
            with contextlib.suppress(Exception):
                task.throw(GreenletExit)

    def forget(self, host: Host) -> list[Task]:
        """Drop the tasks of a process that has died, and return them: none of their code runs any more."""
        gone = [task for task in self.tasks if task.host is host]
        self.tasks = [task for task in self.tasks if task.host is not host]
        return gone


class Event:
    """threading.Event in virtual time."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.flag, self.waiting = clock, False, list[Task]()

    def is_set(self) -> bool:
        return self.flag

    def set(self) -> None:
        self.flag = True
        for task in self.waiting:
            self.clock.wake(task)

    def clear(self) -> None:
        self.flag = False

    def wait(self, timeout: float | None = None) -> bool:
        task = getcurrent()
        assert isinstance(task, Task)
        if not self.flag:
            self.waiting.append(task)
            self.clock.wait(NEVER if timeout is None else timeout)
            self.waiting.remove(task)
        return self.flag


class Thread:
    """threading.Thread in virtual time."""

    def __init__(
        self,
        clock: Clock,
        host: Host,
        target: Callable[..., Any],
        args: Any = (),
        daemon: bool = False,
    ) -> None:
        del daemon
        self.clock, self.host, self.run, self.done = clock, host, lambda: target(*args), Event(clock)
        self.started = False

    def start(self) -> None:
        self.started = True
        self.clock.start(self.host, self.work)

    def work(self) -> None:
        try:
            self.run()
        finally:
            self.done.set()

    def is_alive(self) -> bool:
        return self.started and not self.done.is_set()

    def join(self, timeout: float | None = None) -> None:
        self.done.wait(timeout)


class Timer(Thread):
    """threading.Timer in virtual time."""

    def __init__(self, clock: Clock, host: Host, interval: float, function: Callable[..., Any], args: Any = ()) -> None:
        super().__init__(clock, host, function, args)
        self.call, self.run = self.run, self.late
        self.interval, self.daemon = interval, False

    def late(self) -> None:
        self.clock.wait(self.interval)
        self.call()
