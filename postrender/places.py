"""Find the line of a document in which a part of its object stands."""

from __future__ import annotations

from postrender import composed
from postrender.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postrender.plain import Plain
    from postrender.pods import Path
    from postrender.rules import Item
    from postrender.stream import Document


def line(document: Document, path: Path, item: Item | None) -> int:
    """Return the line of a path, or of what is nearest above it, within its document.

    The path is one of the wired object, in whose lists new items stand in front of those of the text.
    """
    text = document.text()
    try:
        spot = composed.scan(text, document.name)
    except (InputError, StopIteration):
        return 1
    value: Plain = None
    for depth, part in enumerate(path):
        if item is not None and depth == len(item.path):
            value = item.object
        if isinstance(part, int):
            at = part - (len(value) - len(spot.items) if isinstance(value, list) else 0)
            if not 0 <= at < len(spot.items):
                break
            spot = spot.items[at]
        elif part in spot.keys:
            spot = spot.keys[part]
        else:
            break
        value = _inside(value, part)
    return text.count("\n", 0, spot.start) + 1


def _inside(value: Plain, part: str | int) -> Plain:
    try:
        return value[part]
    except (LookupError, TypeError):
        return None
