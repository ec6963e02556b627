"""Let commands take turns (A B C A B C ...) as whole processes, so that a slow minute of the machine hits all alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# An installed package has its bytecode beside it; a checkout gets it in the first, uncounted round.
DROPPED = ("PYTHONDONTWRITEBYTECODE", "GRPO_VALUES", "HELM_PLUGIN_NAME")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in DROPPED}

Times = dict[str, list[float]]


def milliseconds(command: Sequence[str]) -> float:
    """Run a command to its end and return how long the whole process took."""
    start = time.perf_counter()
    done = subprocess.run(command, check=False, cwd=ROOT, env=ENVIRONMENT, capture_output=True)
    took = (time.perf_counter() - start) * 1000
    # A rival may miss what another file sets, or a schema: exit code 1 is as much work.
    if done.returncode not in (0, 1) or b"Traceback" in done.stderr:
        raise SystemExit(f"{command} failed: {done.stderr.decode()[-2000:]}")
    return took


def measure(commands: Mapping[str, Sequence[str]], rounds: int) -> Times:
    """Return the milliseconds of each command; a round that warms the file cache is not among them."""
    times: Times = {name: [] for name in commands}
    for at in range(rounds + 1):
        for name, command in commands.items():
            took = milliseconds(command)
            if at:
                times[name].append(took)
    return times


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the rounds' ratios."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def verdict(value: float, target: float | None, unit: str = "") -> str:
    """Return the words on a target, nothing where there is none."""
    if target is None:
        return ""
    return f"   target {target}{unit}: {'met' if value <= target else 'MISSED'}"
