"""Set a deadline for a cluster's answers: users wait ten seconds for a sign of life."""

from __future__ import annotations

import time
from typing import Final

# Seconds for all questions that are asked at once, and for each of those that follow each other.
PATIENCE: Final = 6.0
# Seconds for a command's own work, without the start of Python, and the cluster together.
_IN_ALL: Final = 7.0
# Seconds that the cluster has in any case.
_LEAST: Final = 3.0


class Deadline:
    """A moment shared by all answers; by default, it is PATIENCE seconds from now."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = PATIENCE if seconds is None else seconds
        self._end = time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Return the seconds that remain, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def renew(self) -> None:
        """Restart the deadline after an answer: a slow cluster is not a silent one."""
        self.seconds = max(self.seconds, PATIENCE)
        self._end = time.monotonic() + self.seconds


def after(began: float) -> Deadline:
    """Return the deadline for a command that started at `began` (time.monotonic()) and has worked locally since then.

    Rendering the charts takes long on a busy machine; the cluster's answer may not.
    """
    return Deadline(min(PATIENCE, max(_LEAST, _IN_ALL - (time.monotonic() - began))))
