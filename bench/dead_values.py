"""Measure how long `grpo dead-values` takes for a chart that is not ours, after the embedded Helm has started.

    python bench/dead_values.py [ROUNDS] [CHART]

CHART is a folder or a package; by default KubeRay's public ray-cluster chart, the one of `make tools`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

import turns

from grpo.check import dead_values
from grpo.helm.engines import Embedded

TARGET_SECONDS = 0.5


class Counting(Embedded):
    """The embedded Helm, with the number of its renders."""

    renders = 0

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Count what is asked of the worker, which is to render."""
        self.renders += 1
        return super().ask(request)


def main() -> int:
    """Print the median, the fastest, and what a render costs."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    chart = sys.argv[2] if len(sys.argv) > 2 else str(turns.tool("share/kuberay-ray-cluster"))
    times = []
    with Counting() as engine:
        for _ in range(rounds + 1):
            engine.renders = 0
            start = time.perf_counter()
            result = dead_values.find(engine, chart, [])
            times.append(time.perf_counter() - start)
    # The first round warms the worker.
    median, best = statistics.median(times[1:]), min(times[1:])
    print(f"{result.tried} values, {len(result.nothing)} move nothing, {engine.renders} renders; {rounds} rounds")
    print(
        f"median {median:.3f} s (best {best:.3f}), {median / engine.renders * 1000:.2f} ms a render"
        + turns.verdict(median, TARGET_SECONDS, " s")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
