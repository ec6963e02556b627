"""A stand-in trainer: stamps a log while it lives, needs time to save when it is asked to stop, ends as it is told."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from types import FrameType


def main() -> int:
    options = arguments()
    log = os.open(options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    stop_at: list[float] = []

    def note(word: str) -> None:
        os.write(log, f"{options.name} {os.getpid()} {word} {time.monotonic()}\n".encode())

    def on_stop(number: int, _frame: FrameType | None) -> None:
        note(signal.Signals(number).name)
        if not options.deaf:
            stop_at.append(time.monotonic() + options.save)

    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, on_stop)
    if options.descriptors:
        with open(options.descriptors, "w", encoding="utf-8") as file:
            json.dump({fd: os.readlink(f"/proc/self/fd/{fd}") for fd in open_descriptors()}, file)
    if options.say:
        print(options.say, file=sys.stderr, flush=True)
    if options.away:
        subprocess.Popen(["sleep", "20"], start_new_session=True)
    if options.leave:
        subprocess.Popen([sys.executable, __file__, options.log, "--name", "left", "--run", "30", "--deaf"])
    end = time.monotonic() + options.run
    while time.monotonic() < min([end, *stop_at[:1]]):
        note("alive")
        time.sleep(0.02)
    if options.kill:
        os.kill(os.getpid(), options.kill)
    return int(options.code)


def open_descriptors() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--name", default="trainer")
    parser.add_argument("--run", type=float, default=0.05, help="seconds to live")
    parser.add_argument("--save", type=float, default=0.0, help="seconds that saving takes after a signal")
    parser.add_argument("--code", type=int, default=0)
    parser.add_argument("--kill", type=int, default=0, help="signal to die of")
    parser.add_argument("--deaf", action="store_true", help="ignore signals")
    parser.add_argument("--leave", action="store_true", help="leave a process behind")
    parser.add_argument("--say", help="text for the standard error")
    parser.add_argument(
        "--away", action="store_true", help="start a process that leaves the group and keeps the output open"
    )
    parser.add_argument("--descriptors", help="file for what is open at the start")
    parser.add_argument("--config")
    return parser.parse_args(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
