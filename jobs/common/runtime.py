"""What the launcher and the task programs share: errors, log lines, the clock, waiting."""

from __future__ import annotations

import signal
import time
from typing import Any

Record = dict[str, Any]
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
NEVER, now = float("inf"), time.monotonic


class JobError(Exception):
    """The job cannot start or continue; the message says why and what to do."""


class StopRequestError(Exception):
    """SIGTERM or SIGINT arrived while no trainer was running; the argument is the signal's number."""


class Progress:
    """When the main thread last showed that no call holds it."""

    at = now()


def say(text: str) -> None:
    """Print a line of the job's log, in ASCII because a pod may have no locale."""
    print("grpo: " + text.encode("ascii", "backslashreplace").decode(), flush=True)


def pause(duration: float) -> None:
    """Wait for a number of seconds; raise StopRequestError when a stop signal has arrived or arrives meanwhile."""
    info, Progress.at = signal.sigtimedwait(STOP_SIGNALS, duration), now()
    if info:
        raise StopRequestError(info.si_signo)
