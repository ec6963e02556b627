"""A phase of a step on one GPU: what is in its memory, and whether that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.plan.units import NOTHING, Bytes, total

if TYPE_CHECKING:
    from collections.abc import Sequence

FITS: Final = "fits"
TIGHT: Final = "tight"
DOES_NOT_FIT: Final = "does not fit"
NOT_MODELLED: Final = "not modelled"
# Best first; a plan is as good as its worst phase.
VERDICTS: Final = (FITS, NOT_MODELLED, TIGHT, DOES_NOT_FIT)

# The share of a GPU's memory that a plan may use: a published run failed at 0.94, and the allocator's pieces take up to
# a tenth. Experts and Megatron need more room, because less of them was checked.
SHARE: Final = 0.85
WIDE_SHARE: Final = 0.75
# How far above the memory a sum must be to be called too large: published runs are within 5 % of their sums.
_ERROR: Final = 1.05


class Item(NamedTuple):
    """Something in a GPU's memory: a fixed part, and a part that grows with the tokens in a micro batch.

    `formula` and `source` say where the numbers are from.
    """

    name: str
    formula: str
    source: str
    fixed: Bytes = NOTHING
    per_token: Bytes = NOTHING

    def at(self, tokens: int) -> Bytes:
        """Return the size for a number of tokens."""
        return self.fixed + tokens * self.per_token


class Phase(NamedTuple):
    """A phase: its items, a micro batch's maximum and realistic tokens on the GPU, and the memory it may use."""

    name: str
    items: Sequence[Item]
    worst: int
    realistic: int
    usable: Bytes
    share: float

    @property
    def peak(self) -> Bytes:
        """Return the memory in the worst case."""
        return self.at(self.worst)

    def at(self, tokens: int) -> Bytes:
        """Return the memory for a number of tokens."""
        return total(item.at(tokens) for item in self.items)

    @property
    def max_tokens(self) -> int | None:
        """Return the tokens of the largest micro batch that fits, or None if memory does not depend on them."""
        each = total(item.per_token for item in self.items)
        if not each.count:
            return None
        left = self.usable * self.share - total(item.fixed for item in self.items)
        return max(int(left.count // each.count), 0)

    @property
    def verdict(self) -> str:
        """Return whether the phase fits: in the worst case with a margin, or only with realistic lengths."""
        if self.peak.share(self.usable) <= self.share:
            return FITS
        return TIGHT if self.at(self.realistic) <= self.usable * _ERROR else DOES_NOT_FIT
