"""Say whether a person watches, and draw for them; pipes, files and CI get plain text."""

from __future__ import annotations

import os
from typing import IO

from rich.console import Console
from rich.theme import Theme


def is_watched(stream: IO[str] | None) -> bool:
    """Say whether a stream is a terminal that can draw; some CI systems give their jobs a terminal."""
    return stream is not None and stream.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


def console(stream: IO[str], theme: Theme | None = None) -> Console:
    """Return a console on a watched stream; with NO_COLOR it writes no escape codes for style."""
    return Console(
        file=stream,
        theme=theme,
        force_terminal=True,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )
