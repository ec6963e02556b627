"""The samples of a run's last step, from its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import samples

# How many of the best and of the worst.
COUNT: Final = 2


def last_step(directory: str) -> dict[str, Any]:
    """Return rewards and samples of the last step: best and worst; empty for a directory without samples."""
    try:
        best = samples.show(Path(directory), None, COUNT, "best")
        worst = samples.show(Path(directory), None, COUNT, "worst")
    except samples.SampleError:
        return {}
    return {**best, "best": best["shown"], "worst": worst["shown"]}
