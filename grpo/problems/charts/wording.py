"""Phrases that several rules over charts share in their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def some(names: Sequence[str], limit: int = 3) -> str:
    """List the first names, and count the others."""
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest
