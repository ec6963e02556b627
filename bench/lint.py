"""Measure `grpo lint` of one stack against check-jsonschema on the same three files, whole processes.

The commands take turns (A B C A B C …) and the ratios are medians of the rounds' ratios, so a slow minute of the
machine hits all of them alike. The target is a ratio of at most 0.15.

    python bench/lint.py [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ["values/accelerators/b200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml", "values/examples/site.yaml"]
SCHEMA = "charts/grpo-job/values.schema.json"
TARGET = 0.15

# An installed package has its bytecode beside it; a checkout gets it in the first, uncounted round.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

COMMANDS = {
    "grpo lint": [sys.executable, "-c", "import sys; from postrender.cli import main; sys.exit(main())", "lint"]
    + [word for file in FILES for word in ("-f", file)],
    "check-jsonschema": [sys.executable, "-m", "check_jsonschema", "--schemafile", SCHEMA, *FILES],
    "python -c pass": [sys.executable, "-c", "pass"],
}


def milliseconds(command: list[str]) -> float:
    """Run a command to its end and return how long the whole process took."""
    start = time.perf_counter()
    done = subprocess.run(command, check=False, cwd=ROOT, env=ENVIRONMENT, capture_output=True)
    took = (time.perf_counter() - start) * 1000
    # check-jsonschema judges each file alone, so it may miss what another file sets: exit code 1 is as much work.
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command} failed: {done.stderr.decode()}")
    return took


def main() -> int:
    """Print the medians and the ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for at in range(rounds + 1):
        for name, command in COMMANDS.items():
            took = milliseconds(command)
            if at:  # the first round warms the file cache
                times[name].append(took)
    base = times["check-jsonschema"]
    for name, values in times.items():
        ratio = statistics.median(value / other for value, other in zip(values, base, strict=True))
        print(f"{name:<18} {statistics.median(values):7.1f} ms   {ratio:.3f} of check-jsonschema")
    print(f"target for grpo lint: {TARGET}; {rounds} interleaved rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
