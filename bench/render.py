"""Measure how long the embedded Helm takes to render the four layers of one stack, after it has started.

python bench/render.py [ROUNDS]
"""

from __future__ import annotations

import statistics
import sys
import time

import turns

from grpo.helm.engines import Embedded
from grpo.helm.stack import Stack
from postrender.paths import LAYERS

FILES = ["values/recipes/gemma3-27b-gsm8k.yaml", "values/examples/site.yaml"]
TARGET_MILLISECONDS = 100


def main() -> int:
    """Print the medians for each layer and for the four together."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    stack = Stack.load([str(turns.ROOT / file) for file in FILES], accelerator="b200")
    times: dict[str, list[float]] = {layer: [] for layer in LAYERS}
    begin = time.perf_counter()
    with Embedded() as engine:
        print(f"{'start':<12} {(time.perf_counter() - begin) * 1000:7.1f} ms")
        for _ in range(rounds):
            for layer in LAYERS:
                start = time.perf_counter()
                stack.render(engine, layer, notes=True)
                times[layer].append((time.perf_counter() - start) * 1000)
    for layer, values in times.items():
        print(f"{layer:<12} {statistics.median(values):7.1f} ms")
    total = statistics.median(map(sum, zip(*times.values(), strict=True)))
    print(f"{'four layers':<12} {total:7.1f} ms{turns.verdict(total, TARGET_MILLISECONDS, ' ms')}; {rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
