"""job.rewards as verl's custom reward function: compute_score.

verl loads this file by its path in every process that scores responses; its folder is not on the search path. From
v0.7 on, a pool of threads calls it. The returned names become validation metrics by data source: score, acc and one
reward_<name> per reward.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

FOLDER = str(Path(__file__).resolve().parent)
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)

import rewards  # noqa: E402 - it lies beside this file

# Load the rewards at import, so that a mistake in one fails there, not at the first response.
COMBINATION = rewards.load(Path(FOLDER))


def compute_score(
    data_source: Any, solution_str: Any, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> dict[str, float]:
    """Return the weighted sum as score, correctness as acc (1.0 or 0.0), and each reward's score."""
    result = COMBINATION(ground_truth, solution_str, data_source, extra_info)
    parts = {f"reward_{name}": score for name, score in result.parts.items()}
    return {"score": result.score, "acc": float(result.correct), **parts}
