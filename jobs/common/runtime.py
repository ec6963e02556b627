"""What the launcher and the task programs share: errors, log lines, the clock, waiting."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
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
    """The time when the main thread was last known not to be stuck in a call."""

    at = now()


def say(text: str) -> None:
    """Print a line to the job's log, in ASCII because a pod may have no locale."""
    print("grpo: " + text.encode("ascii", "backslashreplace").decode(), flush=True)


def wait_for_signal(signals: set[signal.Signals], duration: float) -> signal.struct_siginfo | None:
    """Wait for one of these blocked signals; return it, or None after `duration` seconds.

    If the process has been paused, Python's own wait of more than 0 s returns a signal that was never sent.
    """
    deadline = now() + duration
    while (info := signal.sigtimedwait(signals, 0)) is None and (left := deadline - now()) > 0:
        time.sleep(min(left, 0.05))
    Progress.at = now()
    return info


def pause(duration: float) -> None:
    """Wait for a number of seconds; raise StopRequestError if a stop signal has arrived or arrives in the meantime."""
    if info := wait_for_signal(STOP_SIGNALS, duration):
        raise StopRequestError(info.si_signo)


def run_program(words: list[str], patience: float = NEVER) -> int | None:
    """Run a program and return its exit code, or None if it had to be killed after `patience` seconds.

    A stop signal raises StopRequestError and kills the program too.
    """
    deadline = now() + patience
    # A separate process group and a loop that notices signals: a program that hangs must not hold the GPUs.
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True) as program:
        try:
            while program.poll() is None and now() < deadline:
                pause(0.1)
            return program.returncode
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
