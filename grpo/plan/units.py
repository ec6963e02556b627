"""Amounts of memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_GIB: Final = 2**30


@dataclass(frozen=True, order=True)
class Bytes:
    """An amount of memory; a number times an amount is an amount, and an amount divided by an amount is a number."""

    count: float

    @property
    def gib(self) -> float:
        """Return the amount in GiB."""
        return self.count / _GIB

    def __add__(self, other: Bytes) -> Bytes:
        """Return the sum."""
        return Bytes(self.count + other.count)

    def __sub__(self, other: Bytes) -> Bytes:
        """Return the difference."""
        return Bytes(self.count - other.count)

    def __mul__(self, factor: float) -> Bytes:
        """Return a multiple."""
        return Bytes(self.count * factor)

    __rmul__ = __mul__

    def share(self, whole: Bytes) -> float:
        """Return the share of another amount that this amount makes up."""
        return self.count / whole.count

    def __str__(self) -> str:
        """Return the amount in GiB, with one decimal."""
        return f"{self.gib:.1f} GiB"


NOTHING: Final = Bytes(0)


def gib(count: float) -> Bytes:
    """Return an amount given in GiB."""
    return Bytes(count * _GIB)


def total(amounts: Iterable[Bytes]) -> Bytes:
    """Return the sum of amounts."""
    return Bytes(sum(each.count for each in amounts))
