"""Draw the mean rewards of runs: python curve.py PICTURE FILE, with the result.json of one run in each line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

# So many steps at the beginning and at the end are compared, and the mean reward must rise by the margin.
# A mean over ten steps of 256 answers has a standard error of 0.01 at most: the margin is seven of their difference.
WINDOW, MARGIN = 10, 0.1
WIDTH, HEIGHT, LEFT, BOTTOM, EDGE = 640, 300, 46, 40, 14
COLOURS = ("#0b6e99", "#c2571a", "#4b7f3b", "#7a4fa3")


def means(rewards: Sequence[float]) -> tuple[float, float]:
    """Return the mean of the first steps and of the last ones."""
    return fmean(rewards[:WINDOW]), fmean(rewards[-WINDOW:])


def place(step: float, reward: float, steps: int) -> str:
    """Return the point of a reward (0 to 1) of a step (1 to `steps`) in the picture."""
    across = LEFT + (step - 1) / max(1, steps - 1) * (WIDTH - LEFT - EDGE)
    return f"{across:.1f},{HEIGHT - BOTTOM - reward * (HEIGHT - BOTTOM - EDGE):.1f}"


def grid(steps: int) -> list[str]:
    """Return the lines of the scale, its numbers, and the names of both axes."""
    found = []
    for tenth in range(0, 11, 2):
        start, end = place(1, tenth / 10, steps), place(steps, tenth / 10, steps)
        height = start.partition(",")[2]
        found.append(f'<polyline class="grid" points="{start} {end}"/>')
        found.append(f'<text x="{LEFT - 8}" y="{height}" text-anchor="end" dy="4">{tenth / 10:.1f}</text>')
    for step in (1, *range(10, steps + 1, 10)):
        across = place(step, 0, steps).partition(",")[0]
        found.append(f'<text x="{across}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    return found


def mark(step: int, steps: int, what: str) -> list[str]:
    """Return the line where the trainers were killed or hung, with its words."""
    across = place(step, 0, steps).partition(",")[0]
    line = f'<polyline class="kill" points="{place(step, 0, steps)} {place(step, 1, steps)}"/>'
    return [line, f'<text x="{across}" y="{HEIGHT - BOTTOM - 8}" dx="6">{what} after step {step}, resumed</text>']


def picture(results: Sequence[dict[str, Any]]) -> str:
    """Return an SVG with the mean reward of each step of each run."""
    steps = max(len(one["rewards"]) for one in results)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"',
        ' font-family="sans-serif" font-size="12">',
        "<title>Mean reward of each GRPO step</title>",
        "<style>polyline{fill:none;stroke-width:2}.grid{stroke:#8884;stroke-width:1}"
        ".kill{stroke:#888;stroke-width:1;stroke-dasharray:4 4}text{fill:#777}</style>",
        *grid(steps),
        *mark(results[0]["killedAfter"], steps, results[0].get("signal", "SIGKILL")),
    ]
    for index, one in enumerate(results):
        points = " ".join(place(step, reward, steps) for step, reward in enumerate(one["rewards"], 1))
        colour = COLOURS[index % len(COLOURS)]
        rows.append(f'<polyline stroke="{colour}" points="{points}"/>')
        name = f'<text x="{LEFT + 10 + 70 * index}" y="{EDGE + 10}" style="fill:{colour}">seed {one["seed"]}</text>'
        rows.append(name)
    rows.append(
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 6}" text-anchor="end">GRPO step; mean reward of 256 answers</text>'
    )
    return "\n".join([*rows, "</svg>", ""])


def main(target: str, source: str) -> None:
    """Write the picture of some results."""
    results = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    Path(target).write_text(picture(results), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
