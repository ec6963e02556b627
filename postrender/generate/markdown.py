"""Write text as Markdown."""

from __future__ import annotations

import re

_LINK = re.compile(r"https://[^\s,;)]*[^\s,;).]")


def prose(text: str) -> str:
    """Return text in which Markdown finds nothing to format; addresses become links."""
    parts = re.split(f"({_LINK.pattern})", text)
    return "".join(f"<{part}>" if _LINK.fullmatch(part) else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    # An underscore inside a word is one.
    return re.sub(r"([*`\[\]<>|]|(?<!\w)_|_(?!\w))", r"\\\1", text)
