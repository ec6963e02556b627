"""Words that the messages of several rules over charts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def some(names: Sequence[str], shown: int = 3) -> str:
    """Name the first of several, and count the rest."""
    rest = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + rest
