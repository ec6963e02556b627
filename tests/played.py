"""A clock for a program that waits: a test with it takes no time, and nothing depends on how busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# A program that pauses more often waits for ever.
MOST = 10_000


class Clock:
    """Time that passes only in a pause; `meanwhile` is what others do in each of them.

    It takes the place of the module `time` in a program: what it does not play is the module's own.
    """

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.moment, self.meanwhile = 0.0, meanwhile
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.moment

    def sleep(self, seconds: float) -> None:
        assert len(self.pauses) < MOST, "the program waits for ever"
        self.moment += seconds
        self.pauses.append(seconds)
        self.meanwhile()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
