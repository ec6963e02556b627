"""What the GPUs of a run cost."""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """Dollars an hour for all GPUs of a run, at a price for one."""

    price: float
    gpus: int

    @property
    def hour(self) -> float:
        """Return the dollars an hour, busy or idle."""
        return self.price * self.gpus

    @property
    def day(self) -> float:
        """Return the dollars a day."""
        return 24 * self.hour
