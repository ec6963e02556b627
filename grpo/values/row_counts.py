"""The rows of the data of a run that the user has counted, by the file that the run reads."""

from __future__ import annotations

from collections.abc import Mapping

_counted: dict[str, int] = {}


def of(file: str) -> int | None:
    """Return the rows of a file, as the configuration names it; None if nobody has counted them."""
    return _counted.get(file)


def use(counts: Mapping[str, int]) -> None:
    """Take these counts, and forget all others."""
    _counted.clear()
    _counted.update(counts)
