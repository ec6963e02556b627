"""Measure `grpo-post-render` against `kubectl kustomize` that inserts the same into the same objects, whole processes.

    python bench/post_render.py [ROUNDS | SIZE=ROUNDS ...]

SIZE is small, medium, large or large_all; 0 rounds leave a size out. ROUNDS without a size leaves out the large ones,
for which kustomize takes minutes: what is inserted into them is inserted into medium too. The commands take turns
(A B C A B C ...) and the ratios are medians of the rounds' ratios, so a slow minute of the machine hits all of them
alike. Before the first round both outputs are compared; a difference ends the run. kubectl is the one of `make tools`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import same_patch
import streams
import turns

ROOT = turns.ROOT
FILTER = Path(sys.executable).parent / "grpo-post-render"
ROUNDS = {"small": 15, "medium": 11, "large": 3, "large_all": 3}
SLOW = ("large", "large_all")

GATE, NO_GATE, THEIRS = "gate on", "gate off", "kustomize"
TARGETS = {("small", GATE): 0.65, ("small", NO_GATE): 0.65, ("medium", GATE): 0.30, ("medium", NO_GATE): 0.30}
# Of kustomize's peak memory on the same stream.
MEMORY_TARGET = 0.25

Runs = dict[str, list[tuple[float, float]]]


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the commands, each with its program's whole path."""
    ours = [str(FILTER), *(word for file in same_patch.FILES for word in ("--values", file))]
    return {
        GATE: ours,
        NO_GATE: [*ours, "--no-gate"],
        THEIRS: [str(turns.tool("bin/kubectl")), "kustomize", str(folder)],
        "cat": [shutil.which("cat") or "/bin/cat"],
        "python -c pass": [sys.executable, "-c", "pass"],
    }


def output(command: Sequence[str], stream: Path) -> str:
    """Return what a command prints."""
    with stream.open("rb") as file:
        done = subprocess.run(command, check=False, cwd=ROOT, env=turns.ENVIRONMENT, stdin=file, capture_output=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()


def measured(command: Sequence[str], stream: Path) -> tuple[float, float]:
    """Run a command to its end; return its milliseconds and its peak memory in MiB."""
    child = [sys.executable, "-I", "-S", str(ROOT / "bench/child.py"), str(stream), *command]
    done = subprocess.run(child, check=True, cwd=ROOT, env=turns.ENVIRONMENT, capture_output=True, text=True)
    seconds, peak, status = done.stdout.split()
    if status != "0":
        raise SystemExit(f"{' '.join(command)} failed with exit code {status}: {done.stderr}")
    return float(seconds) * 1000, int(peak) / 1024


def prepare(folder: Path, size: str, gpu: same_patch.Wiring, other: same_patch.Wiring) -> Path:
    """Write one stream and the kustomization for it; return the stream's file."""
    data = streams.stream(size)
    stream = folder / "input.yaml"
    stream.write_bytes(data)
    (folder / "kustomization.yaml").write_text(json.dumps(same_patch.kustomization(data.decode(), gpu, other)))
    return stream


def compare(chosen: Mapping[str, Sequence[str]], stream: Path, size: str) -> int:
    """Return how many objects both made the same; end the run where they did not, or where ours changed others.

    This warms the file cache too.
    """
    theirs = output(chosen[THEIRS], stream)
    for name in (GATE, NO_GATE):
        ours = output(chosen[name], stream)
        different = [*same_patch.differences(ours, theirs), *same_patch.touched(stream.read_text(), ours)]
        if different:
            raise SystemExit(
                "\n".join([f"{size}, {name}: not the same was done, so no ratio means anything", *different[:9]])
            )
    return sum(1 for _ in same_patch.targets(theirs))


def show(size: str, stream: Path, times: Runs, same: int) -> None:
    """Print one table."""
    mib = stream.stat().st_size / 2**20
    rounds = len(times[THEIRS])
    print(f"\n{size}: {streams.SIZES[size][0]} documents, {mib:.3g} MiB, {same} objects get wiring; {rounds} rounds")
    for name, runs in times.items():
        ours, theirs = ([run[0] for run in each] for each in (runs, times[THEIRS]))
        ratio = turns.ratio(ours, theirs)
        milliseconds, peak = (statistics.median(column) for column in zip(*runs, strict=True))
        line = f"  {name:<15} {milliseconds:9.1f} ms   {ratio:7.4f} of kustomize   peak {peak:6.1f} MiB"
        print(line + turns.verdict(ratio, TARGETS.get((size, name))))
        if name in (GATE, NO_GATE):
            memory = peak / statistics.median(peak for _, peak in times[THEIRS])
            print(f"  {'':<15} memory {memory:.3f} of kustomize" + turns.verdict(memory, MEMORY_TARGET))


def main() -> int:
    """Compare, measure and print."""
    rounds = turns.rounds_of(ROUNDS, SLOW)
    kubectl = turns.tool("bin/kubectl")
    version = subprocess.run([kubectl, "version", "--client"], check=True, capture_output=True, text=True).stdout
    print(f"kubectl of .tools/bin, {', '.join(version.split(chr(10))).strip(', ')}; Python {sys.version.split()[0]}")
    gpu, other = same_patch.chart_wiring(str(ROOT))
    for size, count in rounds.items():
        if not count:
            print(f"\n{size}: left out")
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            stream = prepare(folder, size, gpu, other)
            chosen = commands(folder)
            same = compare(chosen, stream, size)
            times: Runs = {command: [] for command in chosen}
            for _ in range(count):
                for command, line in chosen.items():
                    times[command].append(measured(line, stream))
            show(size, stream, times, same)
    return 0


if __name__ == "__main__":
    sys.exit(main())
