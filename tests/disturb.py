"""Run tests again and again while their processes are stopped at random: a test that depends on the clock fails.

usage: python tests/disturb.py [--rounds 50] [--seconds 2.0] [--seed 1] [pytest arguments]

SIGSTOP holds up one process of the tests at a time, pytest's own among them, for up to so many seconds, as a busy or a
frozen machine does. The exit code is 1 if a round failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

MARK = "GRPO_DISTURBED"


def processes(mark: str) -> list[int]:
    """Return the processes that have inherited the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def stop_one(pids: list[int], seconds: float) -> None:
    pid = random.choice(pids)  # noqa: S311
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(random.uniform(0.1, seconds))  # noqa: S311
        os.kill(pid, signal.SIGCONT)


def run(arguments: list[str], seconds: float) -> tuple[int, int, str]:
    """Run the tests once; return the exit code, how often a process was stopped, and the output."""
    mark, stops = uuid.uuid4().hex, 0
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, MARK: mark}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as tests:
        assert tests.stdout is not None
        os.set_blocking(tests.stdout.fileno(), False)
        output = b""
        while tests.poll() is None:
            if pids := processes(mark):
                stop_one(pids, seconds)
                stops += 1
            time.sleep(random.uniform(0.05, 0.5))  # noqa: S311
            output += tests.stdout.read() or b""
        output += tests.stdout.read() or b""
        return tests.returncode, stops, output.decode(errors="replace")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a process is stopped at most")
    parser.add_argument("--seed", type=int, default=1)
    options, arguments = parser.parse_known_args()
    random.seed(options.seed)
    failed = 0
    for number in range(1, options.rounds + 1):
        started = time.monotonic()
        code, stops, output = run(arguments or ["tests/jobs"], options.seconds)
        failed += code != 0
        told = output.strip().splitlines()
        lines = (
            told[-1:] if code == 0 else [line for line in told if line.startswith(("FAILED", "ERROR"))] or told[-20:]
        )
        print(f"round {number}: {time.monotonic() - started:.0f} s, {stops} stops:", *lines, sep="\n  ", flush=True)
    print(f"{failed} of {options.rounds} rounds failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
