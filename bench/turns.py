"""Let commands take turns (A B C A B C ...) as whole processes, so that a slow minute of the machine hits all alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# An installed package has its bytecode beside it; a checkout gets it in the first, uncounted round.
DROPPED = ("PYTHONDONTWRITEBYTECODE", "GRPO_VALUES", "HELM_PLUGIN_NAME")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in DROPPED}

Times = dict[str, list[float]]


def tool(name: str) -> Path:
    """Return a file or folder of `make tools`."""
    path = ROOT / ".tools" / name
    if not path.exists():
        raise SystemExit(f"{sys.argv[0]}: needs .tools/{name}: make tools")
    return path


def rounds_of(defaults: Mapping[str, int], slow: Collection[str] = ()) -> dict[str, int]:
    """Return the rounds of each size; the command line sets one by SIZE=ROUNDS, or all but slow ones by ROUNDS."""
    chosen = dict(defaults)
    for word in sys.argv[1:]:
        size, equals, number = word.rpartition("=")
        if not number.isdecimal() or (equals and size not in defaults):
            raise SystemExit(
                f"{sys.argv[0]}: expected ROUNDS or SIZE=ROUNDS, found {word}; SIZE is one of {[*defaults]}"
            )
        if equals:
            chosen[size] = int(number)
        else:
            chosen = {each: 0 if each in slow else int(number) for each in defaults}
    return chosen


def milliseconds(command: Sequence[str], expected: int) -> float:
    """Run a command to its end and return how long the whole process took; end the run at another exit code."""
    start = time.perf_counter()
    done = subprocess.run(command, check=False, cwd=ROOT, env=ENVIRONMENT, capture_output=True)
    took = (time.perf_counter() - start) * 1000
    if done.returncode != expected or b"Traceback" in done.stderr:
        said = (done.stdout + done.stderr).decode()[-2000:]
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}, expected {expected}: {said}")
    return took


def measure(commands: Mapping[str, Sequence[str]], rounds: int, refusing: Collection[str] = ()) -> Times:
    """Return the milliseconds of each command; a round that warms the file cache is not among them.

    All accept their input but those that are `refusing`: their exit code is 1.
    """
    times: Times = {name: [] for name in commands}
    for at in range(rounds + 1):
        for name, command in commands.items():
            took = milliseconds(command, int(name in refusing))
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
