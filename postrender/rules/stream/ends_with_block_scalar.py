"""No document of a chart ends with a text whose last line break counts."""

from __future__ import annotations

import re

from postrender.rules import WARNING, Hit, Manifests, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

# Helm writes this above what it has rendered; what kubectl applies loses nothing.
_RENDERED: Final = re.compile(r"^# Source: ", re.MULTILINE)
_HEADER: Final = re.compile(r"(?:[:-][ \t]+|^)(?:[!&]\S+[ \t]+)*[|>][1-9]?[ \t]*(?:#.*)?$")


def check(manifests: Manifests) -> Iterator[Hit]:
    """Look for the header of a block scalar above the last lines of each document."""
    for document, text in enumerate(manifests.texts):
        if not _RENDERED.search(text):
            continue
        lines = text.rstrip().split("\n")
        found = _header(lines)
        if found is not None:
            col = len(lines[found]) - len(lines[found].lstrip()) + 1
            yield Hit(document, "the document ends with a block scalar", line=found + 1, col=col)


def _header(lines: list[str]) -> int | None:
    """Return the line of the header whose text the last line is; None where the last line is of another kind."""
    last = lines[-1]
    indent = len(last) - len(last.lstrip(" "))
    for number in range(len(lines) - 2, -1, -1):
        line = lines[number]
        if not line.strip():
            continue
        own = len(line) - len(line.lstrip(" "))
        if own < indent:
            if _HEADER.search(line):
                return number
            indent = own
    return None


RULE = Rule(
    "stream/ends-with-block-scalar",
    severity=WARNING,
    title="a rendered document ends with a block scalar",
    why="Helm 4.2.0 to 4.2.3 drop its last line break, and what reads the text may need it",
    fix="write another key behind it, or |- where the line break does not matter",
    source="https://github.com/helm/helm/issues/31948",
    check=check,
)
