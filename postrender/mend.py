"""Put values into the text of a values file: one line changes or is added, and every other byte stays."""

from __future__ import annotations

from postrender import composed, quoted, splice, yamlio
from postrender.errors import InputError, SpliceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postrender.plain import Plain
    from postrender.spots import Spot
    from postrender.values import Path

_MARK = "\ufeff"


def with_value(text: str, name: str, path: Path, value: Plain) -> str:
    """Return the text of a values file in which a path has a value; `name` is what errors call the file.

    Raises SpliceError where the text cannot be edited so that nothing else is read differently.
    """

    def parse(content: str) -> Plain:
        return yamlio.values_from_bytes(content.encode("utf-8"), name).plain()

    mark = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(_MARK)
    before = parse(body)
    keys = [str(part) for part in path]
    after = _laid(before, keys, value)
    if splice.same(before, after):
        return text
    if not before and body.strip() == "{}":
        body = ""
    if not before and _is_comment(body):
        return mark + _appended(body, len(body), "", after)
    added = _added(body, composed.scan(body, name), keys, value)
    try:
        if added is not None and splice.same(parse(added), after):
            return mark + added
    except InputError:
        # Something stands behind the last entry that must stay the last; the other way has its own reason.
        pass
    return mark + splice.edited(body, before, after, parse, lambda content: composed.scan(content, name))


def _is_comment(body: str) -> bool:
    """Say whether a text has nothing but comments, marks of a document and empty lines."""
    return all(line[:1] in ("", "#") or line.rstrip() == "---" for line in map(str.strip, body.splitlines()))


def _laid(tree: Plain, keys: list[str], value: Plain) -> dict[str, Any]:
    """Return a tree with a value at a path; maps that lack are made."""
    if tree is not None and not isinstance(tree, dict):
        raise SpliceError(f"{keys[0]} cannot be set: what is above it is no map")
    first, *rest = keys
    entries = dict(tree or {})
    entries[first] = _laid(entries.get(first), rest, value) if rest else value
    return entries


def _added(text: str, root: Spot, keys: list[str], value: Plain) -> str | None:
    """Return the text with a new key behind the last entry of the nearest map; None where that is no map of lines."""
    spot = root
    while keys and spot.kind == "map" and spot.has(keys[0]):
        spot, keys = spot.child(keys[0]), keys[1:]
    if not keys or spot.kind != "map" or spot.flow or not spot.names():
        return None
    for key in reversed(keys[1:]):
        value = {key: value}
    return _appended(text, spot.end, " " * spot.col, {keys[0]: value})


def _appended(text: str, end: int, indent: str, entries: dict[str, Any]) -> str:
    """Return the text with entries on lines of their own, below the line on which an offset lies."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = "".join(f"{indent}{line}{newline}" for line in quoted.block(entries))
    at = text.find("\n", end)
    if end == len(text) or at < 0:
        start = newline if text and not text.endswith("\n") else ""
        return text + start + lines
    return text[: at + 1] + lines + text[at + 1 :]
