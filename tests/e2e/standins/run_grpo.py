"""Stand-in for the trainer of the image: records its call and behaves as /opt/nemo-rl/e2e/control.json says."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

STATE = Path("/opt/nemo-rl/e2e")


def append(name: str, record: object) -> None:
    """Add a line in one write, so that two trainers cannot mix theirs."""
    with (STATE / name).open("a") as stream:
        stream.write(json.dumps(record) + "\n")


def config_text(arguments: list[str]) -> str:
    """Return the content of the file that --config names."""
    for position, word in enumerate(arguments):
        if word == "--config":
            return Path(arguments[position + 1]).read_text()
        if word.startswith("--config="):
            return Path(word.removeprefix("--config=")).read_text()
    return ""


def main() -> int:
    """Write a sign of life every 50 ms until the time is over, the test lets go, or a save after SIGTERM has ended."""
    control = json.loads((STATE / "control.json").read_text())
    calls = STATE / "calls.jsonl"
    earlier = len(calls.read_text().splitlines()) if calls.exists() else 0
    call = {"argv": sys.argv, "environ": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}
    append("calls.jsonl", {**call, "config": config_text(sys.argv[1:])})
    end = time.time() + control.get("seconds", 0)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    saving = False
    while True:
        append("beats.jsonl", {"pid": os.getpid(), "time": time.time()})
        if asked and not saving:
            saving, end = True, time.time() + control.get("save_seconds", 0)
            print("trainer: SIGTERM, saving", flush=True)
        held = control.get("hold") and not asked and not (STATE / "finish").exists()
        if time.time() >= end and not held:
            break
        time.sleep(0.05)
    codes = control.get("exit", 0)
    return int(codes[min(earlier, len(codes) - 1)] if isinstance(codes, list) else codes)


if __name__ == "__main__":
    sys.exit(main())
