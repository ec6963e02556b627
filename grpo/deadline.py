"""Say until when a cluster must have answered: a person waits ten seconds for a sign of life."""

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
    """A moment that all answers share; it comes so many seconds from now, PATIENCE by default."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = PATIENCE if seconds is None else seconds
        self._end = time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Return the seconds that are left, 0 if none are."""
        return max(0.0, self._end - time.monotonic())

    def renew(self) -> None:
        """Begin again after an answer: a slow cluster is not a silent one."""
        self.seconds = max(self.seconds, PATIENCE)
        self._end = time.monotonic() + self.seconds


def after(began: float) -> Deadline:
    """Return the deadline of a command that began at a time of time.monotonic() and has worked on its own since.

    Rendering the charts takes long on a busy machine; the answer may not.
    """
    return Deadline(min(PATIENCE, max(_LEAST, _IN_ALL - (time.monotonic() - began))))
