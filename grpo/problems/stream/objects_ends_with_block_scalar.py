"""No chart document ends with a block scalar whose last line break matters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from postrender.finding import WARNING, Finding, Place
from postrender.gate.manifests import Manifests
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.types import Json

# Helm writes this line above each rendered document; kubectl does not have the bug.
_RENDERED: Final = re.compile(r"(?m)^# Source: ")
# It is in one of the first lines.
_HEAD: Final = 512
_HEADER: Final = re.compile(r"(?:[:-][ \t]+|^)(?:[!&]\S+[ \t]+){0,2}[|>][1-9]?[ \t]*(?:#.*)?$")


def check(manifests: Manifests) -> Iterator[Finding]:
    """Search for a block scalar header above the last lines of each document."""
    # If a document contains several objects, the last one counts.
    for document, item in {item.document: item.object for item in manifests.items}.items():
        text = manifests.texts[document]
        if _ends_with_line(item) and _RENDERED.search(text[:_HEAD]):
            found = _header(text.rstrip())
            if found is not None:
                line = text[found:].partition("\n")[0]
                col = len(line) - len(line.lstrip()) + 1
                number = text.count("\n", 0, found) + 1
                yield Finding("the document ends with a block scalar", place=Place(document, line=number, col=col))


def _ends_with_line(value: Json) -> bool:
    """Return whether the last value is a text that ends with a line break."""
    while isinstance(value, dict | list) and value:
        value = value[next(reversed(value))] if isinstance(value, dict) else value[-1]
    return isinstance(value, str) and value.endswith("\n")


def _header(text: str) -> int | None:
    """Return the position of the last block scalar's header line; None if the last line is not in a block scalar."""
    start = text.rfind("\n") + 1
    indent = _indent(text[start:])
    while start > 0:
        end = start - 1
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end]
        own = _indent(line)
        if line.strip() and own < indent:
            if _HEADER.search(line):
                return start
            indent = own
        if not indent:
            break
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


RULE = Problem(
    "stream/ends-with-block-scalar",
    target=OBJECTS,
    severity=WARNING,
    fails=Fails.SILENT,
    title="a rendered document ends with a block scalar",
    why="Helm 4.2.0 to 4.2.3 drop its last line break, which the reader of the text may need",
    fix="write another key after it, or |- if the line break does not matter",
    source="https://github.com/helm/helm/issues/31948",
    check=check,
)
