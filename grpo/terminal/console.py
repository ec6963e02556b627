"""Draw on a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from postrender import visible


class VisibleConsole(Console):
    """Draw with colours, and escape invisible characters in what is drawn."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments to draw; control segments, which move the cursor or hide it, are unchanged."""
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
