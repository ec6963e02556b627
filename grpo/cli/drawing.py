"""Draw text and tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from rich.box import SIMPLE_HEAD
from rich.highlighter import RegexHighlighter
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from grpo.terminal import console
from postrender import masking

_THEME: Final = Theme(
    {
        "grpo.place": "bold",
        "grpo.error": "red",
        "grpo.warning": "yellow",
        "grpo.info": "blue",
        "grpo.rule": "cyan",
        "grpo.label": "green",
        "grpo.caret": "bold red",
        "grpo.count": "bold",
        "grpo.yes": "green",
        "grpo.no": "red",
    }
)


class _Highlighter(RegexHighlighter):
    """Colour the parts of findings and errors."""

    base_style = "grpo."
    highlights = (
        r"(?m)^(?P<place>\S.*?:\d+:\d+):(?= )",
        r"(?m)^\S.*?: ((?P<warning>warning)|(?P<info>info)): ",
        r"(?m)(?P<rule>\[[a-z0-9-]+/[a-z0-9-]+\])$",
        r"(?m)^  (?P<label>why|fix|see|also):",
        r"(?m)^ +\|\s+(?P<caret>\^)$",
        r"(?m)^(?P<count>\d+ (error|warning|info)s?(, \d+ (warning|info)s?)*)(;|$)",
    )


def draw_text(text: str, stream: TextIO) -> None:
    """Draw a command's text with colours."""
    coloured = Text(text)
    _Highlighter().highlight(coloured)
    console.create(stream, _THEME).print(coloured, end="", soft_wrap=True)


def draw_table(headings: Sequence[str], rows: Iterable[Sequence[str]], stream: TextIO) -> None:
    """Draw rows as a table; secrets in them are masked."""
    table = Table(*headings, box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for row in rows:
        table.add_row(*(_cell(each) for each in row))
    console.create(stream, _THEME).print(table)


def _cell(text: str) -> Text:
    style = {"error": "grpo.error", "warning": "grpo.warning", "info": "grpo.info", "yes": "grpo.yes", "no": "grpo.no"}
    return Text(masking.text(text), style.get(text, ""), overflow="fold")
