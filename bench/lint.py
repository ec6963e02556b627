"""Measure `grpo lint` against check-jsonschema on the same values files, whole processes.

    python bench/lint.py [ROUNDS]

Twice: one stack of three files, and the same stack with its recipe and its site file 49 times more, 100 files in all.
The commands take turns (A B C A B C ...) and the ratios are medians of the rounds' ratios, so a slow minute of the
machine hits all of them alike. The targets are ratios of at most 0.15 and 0.06. Ours judges the merged values by all
rules; check-jsonschema judges each file alone by the schema.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent
PROFILE, RECIPE, SITE = (
    ROOT / "values" / name for name in ("accelerators/b200.yaml", "recipes/gemma3-27b-gsm8k.yaml", "examples/site.yaml")
)
SCHEMA = ROOT / "charts/grpo-job/values.schema.json"
OURS, THEIRS = "grpo lint", "check-jsonschema"
TARGETS = {3: 0.15, 100: 0.06}

# An installed package has its bytecode beside it; a checkout gets it in the first, uncounted round.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def commands(files: list[Path]) -> dict[str, list[str]]:
    """Return the commands, each with its program's whole path."""
    return {
        OURS: [str(PROGRAMS / "grpo"), "lint", *(word for file in files for word in ("-f", str(file)))],
        THEIRS: [str(PROGRAMS / "check-jsonschema"), "--schemafile", str(SCHEMA), *map(str, files)],
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


def copies(folder: Path) -> list[Path]:
    """Write the recipe and the site file 48 and 49 times more, and return all files of the stack in order."""
    found = [PROFILE, RECIPE]
    for file, times in ((RECIPE, 48), (SITE, 49)):
        for at in range(times):
            copy = folder / f"{file.stem}-{at}.yaml"
            copy.write_bytes(file.read_bytes())
            found.append(copy)
    return [*found, SITE]


def measure(files: list[Path], rounds: int) -> None:
    """Print the medians and the ratios."""
    run = commands(files)
    times: dict[str, list[float]] = {name: [] for name in run}
    for at in range(rounds + 1):
        for name, command in run.items():
            took = milliseconds(command)
            if at:  # the first round warms the file cache
                times[name].append(took)
    print(f"{len(files)} files, {rounds} interleaved rounds")
    for name, values in times.items():
        ratio = statistics.median(value / other for value, other in zip(values, times[THEIRS], strict=True))
        print(f"  {name:<18} {statistics.median(values):7.1f} ms   {ratio:.3f} of {THEIRS}")
        if name == OURS:
            target = TARGETS[len(files)]
            print(f"  {'':<18} target {target}: {'met' if ratio <= target else 'MISSED'}")


def main() -> int:
    """Measure both stacks."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    measure([PROFILE, RECIPE, SITE], rounds)
    with tempfile.TemporaryDirectory() as folder:
        measure(copies(Path(folder)), max(1, rounds // 3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
