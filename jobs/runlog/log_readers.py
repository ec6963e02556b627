"""The reader of a framework's output."""

from __future__ import annotations

from steps import Reader


def reader(framework: str) -> Reader:
    """Return the reader of what `job.framework` prints: nemo-rl or verl."""
    raise NotImplementedError(framework)
