"""Write counts with their nouns."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 node, 2 nodes."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
