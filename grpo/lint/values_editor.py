"""Edit values and names in the text of a values file: one line is changed or added, and every other byte is kept.

ruamel.yaml's round trip is not used: in a test it rewrote 11 of the 12 recipes in values/ (an explicit `null`
becomes nothing, lists get different indentation), so that fixing one value would show up as a change of many lines.
"""

from __future__ import annotations

from typing import Any

from postrender.errors import InputError, SpliceError
from postrender.types import Json, Path
from postrender.yaml import editor, reader, spans, writer
from postrender.yaml.spans import Span

_MARK = "\ufeff"


def with_value(text: str, name: str, path: Path, value: Json) -> str:
    """Return a values file's text with a path set to a value; `name` is what errors call the file.

    Raises SpliceError if the text cannot be edited without changing how the rest of it is read.
    """

    def parse(content: str) -> Json:
        return _parsed(content, name)

    mark = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(_MARK)
    before = parse(body)
    keys = [str(part) for part in path]
    after = _laid(before, keys, value)
    if editor.same(before, after):
        return text
    if not before and body.strip() == "{}":
        body = ""
    if not before and _is_comment(body):
        return mark + _appended(body, len(body), "", after)
    added = _added(body, spans.scan(body, name), keys, value)
    try:
        if added is not None and editor.same(parse(added), after):
            return mark + added
    except InputError:
        # Something stands behind the last entry that must stay the last; the other way has its own reason.
        pass
    return mark + editor.edited(body, name, before, after, parse)


def with_name(text: str, name: str, path: Path, new: str) -> str:
    """Return a values file's text with the key at a path renamed; `name` is what errors call the file.

    Raises SpliceError if the file also sets the new name, or if the name cannot be changed alone.
    """
    *above, old = [str(part) for part in path]
    before = _parsed(text, name)
    span = spans.scan(text.removeprefix(_MARK), name)
    for part in above:
        span = span.keys.get(part, span)
    if new in span.keys:
        raise SpliceError(f"{new} is set there too")
    if old not in span.starts:
        raise SpliceError(f"{old} cannot be found in the text")
    at = span.starts[old] + text.startswith(_MARK)
    start = at + (text[at] in "'\"")
    changed = text[:start] + new + text[start + len(old) :]
    # A key with escapes, an anchor or a name that must be quoted is left to the user.
    is_written_so = text.startswith(old, start)
    if not is_written_so or not editor.same(_parsed(changed, name), _renamed(before, [*above, old], new)):
        raise SpliceError(f"{old} cannot be renamed without another change")
    return changed


def _parsed(text: str, name: str) -> Json:
    return reader.values_from_bytes(text.encode("utf-8"), name).plain()


def _renamed(tree: dict[str, Any], keys: list[str], new: str) -> dict[str, Any]:
    first, *rest = keys
    if rest:
        return {**tree, first: _renamed(tree[first], rest, new)}
    return {new if key == first else key: value for key, value in tree.items()}


def _is_comment(body: str) -> bool:
    """Return whether a text has only comments, document markers and empty lines."""
    return all(line[:1] in ("", "#") or line.rstrip() == "---" for line in map(str.strip, body.splitlines()))


def _laid(tree: Json, keys: list[str], value: Json) -> dict[str, Any]:
    """Return a tree with a value at a path; missing maps are created."""
    if tree is not None and not isinstance(tree, dict):
        raise SpliceError(f"{keys[0]} cannot be set: what is above it is no map")
    first, *rest = keys
    entries = dict(tree or {})
    entries[first] = _laid(entries.get(first), rest, value) if rest else value
    return entries


def _added(text: str, root: Span, keys: list[str], value: Json) -> str | None:
    """Return the text with a new key after the last entry of the nearest map, or None if it is not in block style."""
    span = root
    while keys and span.kind == "map" and keys[0] in span.keys:
        span, keys = span.keys[keys[0]], keys[1:]
    if not keys or span.kind != "map" or span.flow or not span.keys:
        return None
    for key in reversed(keys[1:]):
        value = {key: value}
    return _appended(text, span.end, " " * span.col, {keys[0]: value})


def _appended(text: str, end: int, indent: str, entries: dict[str, Any]) -> str:
    """Return the text with entries on separate lines, below the line that contains an offset."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = "".join(f"{indent}{line}{newline}" for line in writer.block(entries))
    at = text.find("\n", end)
    if end == len(text) or at < 0:
        start = newline if text and not text.endswith("\n") else ""
        return text + start + lines
    return text[: at + 1] + lines + text[at + 1 :]
