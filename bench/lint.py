"""Measure `grpo lint` against check-jsonschema on the same values files, whole processes.

    python bench/lint.py [ROUNDS]

Twice: one stack of three files, and the same stack with its recipe and its site file 49 times more, 100 files in all.
The ratios are medians of the rounds' ratios; the targets are 2.0 for the verdict with the rendered charts and 0.45
without them. Ours judges the merged values by all rules; check-jsonschema judges each file alone by the schema, and
refuses it, because it misses what another file sets: that is as much work.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import turns

ROOT = turns.ROOT
PROGRAMS = Path(sys.executable).parent
PROFILE, RECIPE, SITE = (
    ROOT / name for name in ("values/accelerators/b200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml", "tests/site.yaml")
)
SCHEMA = ROOT / "charts/grpo-job/values.schema.json"
WHOLE, OURS, THEIRS = "grpo lint", "grpo lint --no-render", "check-jsonschema"
TARGETS = {WHOLE: 2.0, OURS: 0.45}


def commands(files: list[Path]) -> dict[str, list[str]]:
    """Return the commands, each with its program's whole path."""
    ours = [str(PROGRAMS / "grpo"), "lint", *(word for file in files for word in ("-f", str(file)))]
    return {
        WHOLE: ours,
        OURS: [*ours, "--no-render"],
        THEIRS: [str(PROGRAMS / "check-jsonschema"), "--schemafile", str(SCHEMA), *map(str, files)],
        "python -c pass": [sys.executable, "-c", "pass"],
    }


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
    times = turns.measure(commands(files), rounds, refusing={THEIRS})
    print(f"{len(files)} files, {rounds} interleaved rounds")
    for name, values in times.items():
        found = turns.ratio(values, times[THEIRS])
        target = TARGETS.get(name)
        print(
            f"  {name:<22} {statistics.median(values):7.1f} ms   {found:.3f} of {THEIRS}{turns.verdict(found, target)}"
        )


def main() -> int:
    """Measure both stacks."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    measure([PROFILE, RECIPE, SITE], rounds)
    with tempfile.TemporaryDirectory() as folder:
        measure(copies(Path(folder)), max(1, rounds // 3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
