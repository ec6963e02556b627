"""job.rewards as verl's custom reward function: compute_score.

verl loads this file by its path, in every process that judges responses, and without its folder on the search path.
From v0.7 calls come from a pool of threads. Validation metrics carry the names of what is returned: score, acc and a
reward_<name> each, by data source.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

FOLDER = str(Path(__file__).resolve().parent)
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)

import rewards  # noqa: E402 - it lies beside this file

# At import: a mistake in a reward then fails where verl loads the file, not at the first response.
COMBINATION = rewards.load(Path(FOLDER))


def compute_score(
    data_source: Any, solution_str: Any, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> dict[str, float]:
    """Return the weighted sum as score, 1.0 or 0.0 as acc, and each reward's own score."""
    result = COMBINATION(ground_truth, solution_str)
    parts = {f"reward_{name}": score for name, score in result.parts.items()}
    return {"score": result.score, "acc": float(result.correct), **parts}
