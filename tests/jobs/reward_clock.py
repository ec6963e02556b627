"""A clock for the limits of rewards: a time is over when a thread stands where the test says, and never before."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

# Seconds between two looks at a thread.
LOOK = 0.005
# A signal that comes just before a thread begins to sleep is lost, so it is sent again: after so many looks, because
# the first one may still be on its way.
LOOKS = 100


class Clock:
    """Stands in for the module threading in reward_limits; `waits` has the times that the limits asked for."""

    def __init__(self, stands: Callable[[FrameType], bool]) -> None:
        self.stands, self.waits = stands, list[float]()
        self.Event, self.Thread = partial(Bell, self), partial(Worker, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    def place(self, thread: int | None) -> Any:
        """Return where a thread stands if its time is over there, otherwise None."""
        frame = sys._current_frames().get(thread or 0)
        return (frame.f_code, frame.f_lineno) if frame and self.stands(frame) else None


class Bell(threading.Event):
    """Waits until it is set, or until the time of the main thread is over."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.last = clock, None

    def wait(self, timeout: float | None = None) -> bool:
        self.clock.waits.append(timeout or 0.0)
        for look in itertools.count():
            if super().wait(LOOK):
                break
            place = self.clock.place(threading.main_thread().ident)
            if place and (place != self.last or look > LOOKS):
                self.last = place
                return False
        return True


class Worker(threading.Thread):
    """Is waited for until it has ended, or until its time is over."""

    def __init__(self, clock: Clock, **given: Any) -> None:
        super().__init__(**given)
        self.clock = clock

    def join(self, timeout: float | None = None) -> None:
        if timeout is None:
            super().join()
            return
        self.clock.waits.append(timeout)
        while self.is_alive() and not self.clock.place(self.ident):
            super().join(LOOK)
