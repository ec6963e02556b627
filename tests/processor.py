"""A limit for the processor time of a block: time in which the process is stopped or waits does not count."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def limited(seconds: float = 60.0) -> Iterator[None]:
    """Fail a block that computes for so long: give it many times what it needs."""

    def fail(*_: object) -> None:
        raise AssertionError(f"it has computed for {seconds:.0f} s and has not ended")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
