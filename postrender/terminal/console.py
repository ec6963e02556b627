"""Detect a terminal and draw on it; pipes, files and CI get plain text."""

from __future__ import annotations

import os
from typing import IO

from rich.console import Console
from rich.theme import Theme


def is_watched(stream: IO[str] | None) -> bool:
    """Return whether a stream is a terminal that a person reads; some CI systems give their jobs a terminal too."""
    return stream is not None and stream.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


def create(stream: IO[str], theme: Theme | None = None) -> Console:
    """Return a rich console that writes to a terminal; with NO_COLOR it uses no colours."""
    return Console(
        file=stream,
        theme=theme,
        force_terminal=True,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )
