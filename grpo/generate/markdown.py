"""Write text and tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LINK = re.compile(r"https://[^\s,;)]*[^\s,;).]")


def prose(text: str) -> str:
    """Return text escaped for Markdown; addresses become links."""
    parts = re.split(f"({_LINK.pattern})", text)
    return "".join(f"<{part}>" if _LINK.fullmatch(part) else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    # Markdown does not format an underscore inside a word.
    return re.sub(r"([*`\[\]<>|]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def table_row(cells: Iterable[str]) -> str:
    """Return cells as one row of a table."""
    return "| " + " | ".join(map(cell, cells)) + " |"


def cell(text: str) -> str:
    """Return text for a table, escaped: a bar would end the cell, and `<name>` outside of code would be HTML."""
    return text.replace("|", "\\|") if text.startswith("`") else text.replace("|", "\\|").replace("<", "&lt;")
