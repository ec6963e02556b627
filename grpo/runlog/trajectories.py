"""The samples of a run's last step, read from its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import samples

# How many of the best and of the worst.
COUNT: Final = 2


def last_step(directory: str) -> dict[str, Any]:
    """Return the last step's rewards, and its best and worst samples; empty if the directory has no samples."""
    try:
        best = samples.show(Path(directory), None, COUNT, "best")
        worst = samples.show(Path(directory), None, COUNT, "worst")
    except samples.SampleError:
        return {}
    return {**best, "best": best["shown"], "worst": worst["shown"]}
