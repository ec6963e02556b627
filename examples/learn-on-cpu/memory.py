"""Measure the memory of a GPU in each phase of a step, and compare it with what `grpo plan` says of the same values."""

from __future__ import annotations

import datetime
import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster import Cluster, grpo
from records import Run

HERE = Path(__file__).resolve().parent
VALUES = [str(HERE / name) for name in ("values-cuda.yaml", "values-memory.yaml")]
# A phase as cuda_phases.py prints it → the phases of the plan: the largest of them counts. The plan has no checkpoint.
PLANNED = {
    "refit": ("refit",),
    "generation": ("generation",),
    "log-probabilities": ("log-probabilities",),
    "training": ("train: loss", "train: backward", "train: last gradients", "optimizer step"),
    "checkpoint": (),
}
BEGINS = re.compile(r"learn: phase (\S+) begins at ([\d.]+)")
MILLISECONDS = 100
MIB_PER_GIB = 1024


class MeasureError(Exception):
    """The memory was not measured; the message says what was found instead."""


def series(text: str) -> list[tuple[float, int]]:
    """Return the time (seconds since 1970) and the used MiB of each line of nvidia-smi, without one cut off at the end.

    Raises MeasureError.
    """
    found = []
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        time, _, used = line.partition(", ")
        try:
            moment = datetime.datetime.strptime(time, "%Y/%m/%d %H:%M:%S.%f").astimezone()
            found.append((moment.timestamp(), int(used)))
        except ValueError:
            raise MeasureError(f"nvidia-smi printed {line.strip()!r}, expected a time and MiB") from None
    return found


def beginnings(output: str) -> list[tuple[float, str]]:
    """Return the time and the name of each phase that the trainer's output announces."""
    return [(float(time), phase) for phase, time in BEGINS.findall(output)]


def peaks(samples: Sequence[tuple[float, int]], phases: Sequence[tuple[float, str]]) -> dict[str, int]:
    """Return the most MiB of all samples of each phase. What is before the first phase counts for none."""
    starts = [time for time, _ in phases]
    found: dict[str, int] = {}
    for time, used in samples:
        if index := bisect_right(starts, time):
            phase = phases[index - 1][1]
            found[phase] = max(used, found.get(phase, 0))
    return found


def compare(measured: Mapping[str, int], before: int, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row a phase: GiB measured and planned, and how far the plan is off, as a share of what was measured.

    `before` are the MiB in use without the run. Raises MeasureError.
    """
    planned = {one["name"]: one["peakGiB"] for one in plan["phases"]}
    if missing := [phase for phase in PLANNED if phase not in measured]:
        raise MeasureError(f"no sample of the phases {', '.join(missing)}; measured: {', '.join(measured) or 'none'}")
    rows = []
    for phase, names in PLANNED.items():
        gib = (measured[phase] - before) / MIB_PER_GIB
        expected = max((planned[name] for name in names), default=None)
        share = None if expected is None or gib <= 0 else round(expected / gib - 1, 3)
        rows.append({"phase": phase, "measuredGiB": round(gib, 2), "planGiB": expected, "error": share})
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as text."""
    lines = [f"{'phase':<18} {'measured':>10} {'plan':>10}  the plan is off by"]
    for row in rows:
        plan = "-" if row["planGiB"] is None else f"{row['planGiB']:.2f} GiB"
        off = "-" if row["error"] is None else f"{100 * row['error']:+.1f} %"
        lines.append(f"{row['phase']:<18} {row['measuredGiB']:>6.2f} GiB {plan:>10}  {off}")
    return "\n".join(lines)


def planned(cluster: Cluster, total: int, model: Path) -> dict[str, Any]:
    """Return what `grpo plan` says for a GPU of so many MiB and the config.json of the model."""
    size = f"accelerator.gpuMemoryGigabytes={round(total / MIB_PER_GIB)}"
    words = ["plan", "--format", "json", "--model-config", str(model)]
    found: dict[str, Any] = json.loads(grpo(*words, settings=[*cluster.settings, VALUES[-1], size]))
    return found


def measure(cluster: Cluster, gpu: str) -> tuple[list[tuple[float, int]], list[tuple[float, str]]]:
    """Train three steps while nvidia-smi watches the GPU; return its samples and the phases."""
    question = ["--query-gpu=timestamp,memory.used", "--format=csv,noheader,nounits", f"--loop-ms={MILLISECONDS}"]
    watcher = cluster.programs.start("memory", ["nvidia-smi", f"--id={gpu}", *question])
    try:
        cluster.run(VALUES[-1], seconds=1800)
    finally:
        cluster.programs.end(watcher)
    output = Run(cluster.data / "runs/memory").output(1)
    return series(watcher.log.read_text(encoding="utf-8")), beginnings(output)
