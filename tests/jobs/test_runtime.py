"""A process that is paused itself: by a debugger, or in a frozen container."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.programs import PROGRAMS

from .harness import load_program

PAUSES = """
import signal, sys
sys.path.insert(0, sys.argv[1])
import runtime
signal.pthread_sigmask(signal.SIG_BLOCK, runtime.STOP_SIGNALS)
print("ready", flush=True)
for _ in range(4):
    runtime.pause(0.3)
"""


def test_a_process_pause_is_not_taken_for_a_signal() -> None:
    """A frozen container or a debugger: signal.sigtimedwait answers with a signal that nobody has sent."""
    words = [sys.executable, "-c", PAUSES, str(PROGRAMS["runtime"].parent)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(2):
            time.sleep(0.1)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.4)
            process.send_signal(signal.SIGCONT)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_ends_a_wait(jobs: Any, number: signal.Signals) -> None:
    runtime = jobs("runtime")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, runtime.STOP_SIGNALS)
    try:
        signal.raise_signal(number)
        with pytest.raises(runtime.StopRequestError) as error:
            runtime.pause(60)
        assert error.value.args == (number,)
        runtime.pause(0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Unstarted(threading.Thread):
    """The watchdog's thread: the test looks in its place."""

    def start(self) -> None:
        pass


@pytest.mark.parametrize(
    ("moments", "codes"),
    [
        pytest.param([0, 100, 100, 101, 101, 101], [], id="paused"),
        pytest.param([0, 1, 40], [128 + signal.SIGTERM], id="hanging"),
    ],
)
def test_only_a_hung_volume_ends_a_launcher(
    moments: list[float], codes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that came during a pause is for the trainer, which saves: the main thread has had no time for it."""
    watchdog = load_program("watchdog")
    clock = iter(moments)
    ended: list[int] = []
    monkeypatch.setattr(watchdog, "now", lambda: next(clock))
    monkeypatch.setattr(watchdog, "BEAT_SECONDS", 0)
    monkeypatch.setattr(watchdog, "end", lambda _text, code: ended.append(code))
    monkeypatch.setattr(watchdog.Progress, "at", 0)
    monkeypatch.setattr(threading, "Thread", Unstarted)
    monkeypatch.setattr(signal, "sigpending", lambda: {signal.SIGTERM})
    with pytest.raises(StopIteration):
        watchdog.Watchdog(tmp_path, 600).watch()
    assert ended == codes
