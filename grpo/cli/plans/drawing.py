"""Show a plan on a terminal, with colours, and draw it as SVG."""

from __future__ import annotations

import io
import re
import sys
from typing import Final

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.text import Text
from rich.theme import Theme

from grpo.terminal import console
from grpo.terminal.watched import is_watched
from postrender import output_file

MARK: Final = b"<!-- Written by grpo plan --svg. -->\n"
_THEME: Final = Theme(
    {
        "plan.fits": "green",
        "plan.tight": "yellow",
        "plan.bad": "bold red",
        "plan.unknown": "dim",
        "plan.rank": "cyan",
        "plan.engine": "magenta",
        "plan.label": "bold",
    }
)
_WIDTH: Final = 120
# The picture must not load anything from another place.
_FONT: Final = re.compile(r"@font-face \{[^{}]*\}\s*")


class _Highlighter(RegexHighlighter):
    """Colour the verdicts, and the picture's ranks and engines."""

    base_style = "plan."
    highlights = (
        r"(?P<bad>does not fit)|(?P<unknown>not modelled)|\b(?P<tight>tight)\b|\b(?P<fits>fits)\b(?! up)",
        r"\b(?P<rank>[dctp]\d+)\b",
        r"\b(?P<engine>e\d+)\b",
        r"(?m)^(?P<label>phase +verdict .*)$",
    )


def _coloured(text: str) -> Text:
    coloured = Text(text)
    _Highlighter().highlight(coloured)
    return coloured


def show(text: str) -> None:
    """Write a plan to stdout, with colours on a terminal."""
    if is_watched(sys.stdout):
        console.create(sys.stdout, _THEME).print(_coloured(text), end="", soft_wrap=True)
    else:
        sys.stdout.write(text)


def save(text: str, file: str) -> None:
    """Write a plan to a file as SVG; raise as output_file.write does."""
    drawn = Console(file=io.StringIO(), record=True, width=_WIDTH, theme=_THEME, force_terminal=True)
    drawn.print(_coloured(text), end="")
    picture = _FONT.sub("", drawn.export_svg(title="grpo plan"))
    output_file.write(file, MARK + picture.encode(), mark=MARK)
