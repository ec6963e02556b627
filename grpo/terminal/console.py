"""Detect a terminal and draw on it; pipes, files and CI get plain text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from postrender import visible


def is_watched(stream: IO[str] | None) -> bool:
    """Return whether a stream is a terminal that a person reads; some CI systems give their jobs a terminal too."""
    return stream is not None and stream.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


class VisibleConsole(Console):
    """Draw with colours, and make the text that is drawn visible."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the parts of what is drawn; a part that is no text moves the cursor or hides it."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible.text(text), style, control)


def create(stream: IO[str], theme: Theme | None = None) -> Console:
    """Return a rich console that writes to a terminal; with NO_COLOR it uses no colours."""
    return VisibleConsole(
        file=visible.exact(cast(TextIO, stream)),
        theme=theme,
        force_terminal=True,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )
