"""Edit a document's text so that it parses as another object, and change no other byte.

New entries go below a map's first line, new items before a list's other items. A value that loses a part or
changes its type is rewritten entirely. `edited` parses the result again and raises if it differs from the goal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from postrender.errors import InputError, Location, SpliceError
from postrender.types import Json
from postrender.yaml import spans, writer
from postrender.yaml.spans import Span

# Start, end, and the new text between them.
Edit = tuple[int, int, str]


def same(left: Json, right: Json) -> bool:
    """Return whether two values are equal and have the same types: 1, 1.0 and true differ."""
    return bool(left == right) and _has_types(left, right)


def _has_types(found: Json, wanted: Json) -> bool:
    """Return whether two equal values have the same types; texts are skipped, because only a text equals a text."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            if not isinstance(value, str) and not _has_types(found[key], value):
                return False
        return True
    return all(map(_has_types, found, wanted)) if isinstance(wanted, list) else type(found) is type(wanted)


def _is(found: Json, before: Json, after: Json) -> bool:
    """Return whether the new text parses as expected; types are compared only in changed parts."""
    return bool(found == after) and _has_new_types(found, before, after)


def _has_new_types(found: Json, before: Json, after: Json) -> bool:
    if before is after or before == after:
        # This text was not edited.
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        return all(
            _has_new_types(found[key], before[key], value) if key in before else _has_types(found[key], value)
            for key, value in after.items()
        )
    if isinstance(before, list) and isinstance(after, list) and len(after) >= len(before):
        new = len(after) - len(before)
        return _has_types(found[:new], after[:new]) and all(map(_has_new_types, found[new:], before, after[new:]))
    return _has_types(found, after)


def edited(text: str, name: str, before: Json, after: Json, parse: Callable[[str], Json]) -> str:
    """Edit `text`, which parses as `before`, so that it parses as `after`.

    `parse` parses a text; `name` is the document's name in errors. Raises SpliceError if no edit has only the wanted
    effect, and InputError if the text is not YAML.
    """
    result = _apply(text, _edits(text, name, before, after))
    try:
        as_wanted = _is(parse(result), before, after)
    except InputError:
        as_wanted = False
    if not as_wanted:
        raise SpliceError("the edit would change other values; an anchor or a merge key may be in the way")
    return result


def _apply(text: str, edits: list[Edit]) -> str:
    parts, at = [], 0
    for start, end, new in sorted(edits):
        if start < at:
            raise SpliceError("two edits of the document overlap")
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _edits(text: str, name: str, before: Json, after: Json) -> list[Edit]:
    editor, root = _Editor(text, name), spans.scan(text, name)
    if before != after:
        editor.walk(root, before, after)
    return list(editor.edits.values())


class _Editor:
    """Collect one document's edits; two edits at one place (an anchor and its alias) must be equal."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        # The offset of the alias around the value that is walked, -1 outside of one.
        self._alias = -1
        self._end = "\r\n" if "\r\n" in text else "\n"
        self.edits: dict[tuple[int, int], Edit] = {}

    def walk(self, span: Span, before: Json, after: Json, *, flow: bool = False) -> None:
        """Descend to the parts that differ; `flow` is true inside braces or brackets."""
        outer = self._alias
        self._alias = span.alias if span.alias >= 0 else outer
        if isinstance(before, dict) and isinstance(after, dict) and before and before.keys() <= after.keys():
            self._walk_map(span, before, after, flow or span.flow)
        elif isinstance(before, list) and isinstance(after, list) and before and len(after) >= len(before):
            self._walk_list(span, before, after, flow or span.flow)
        elif isinstance(after, type(before)) and _has_only_comments(self._text[span.start : span.end]):
            self._put(span.start + 1, span.start + 1, writer.flow(after)[1:-1])
        else:
            self._replace(span, after, flow)
        self._alias = outer

    def _walk_map(self, span: Span, before: dict[str, Any], after: dict[str, Any], flow: bool) -> None:
        _expect(span, "map")
        new = {key: value for key, value in after.items() if key not in before}
        if "<<" in span.keys and (new or not before.keys() <= span.keys.keys()):
            raise SpliceError("a map to edit is merged from another one by <<", fix="write its entries out")
        for key, value in before.items():
            if value == after[key]:
                continue
            if key not in span.keys:
                raise SpliceError(f"the key {key} cannot be found in the text")
            self.walk(span.keys[key], value, after[key], flow=flow)
        if new and flow:
            self._put(span.start + 1, span.start + 1, writer.flow(new)[1:-1] + ", ")
        elif new:
            self._insert_entries(span, _lines(new))

    def _walk_list(self, span: Span, before: list[Json], after: list[Json], flow: bool) -> None:
        _expect(span, "list")
        if len(span.items) != len(before):
            raise SpliceError("the text of a list and its value have different numbers of items")
        new = after[: len(after) - len(before)]
        for number, (old, wanted) in enumerate(zip(before, after[len(new) :], strict=True)):
            if old != wanted:
                self.walk(span.items[number], old, wanted, flow=flow)
        if new and flow:
            self._put(span.start + 1, span.start + 1, writer.flow(new)[1:-1] + ", ")
        elif new:
            self._insert_before(span, _lines(new))

    def _insert_entries(self, span: Span, lines: list[str]) -> None:
        first = span.keys[next(iter(span.keys))]
        is_nested = first.kind in ("map", "list") and not first.flow
        if is_nested or first.start < span.first or "\n" in self._text[first.start : first.end]:
            self._insert_before(span, lines)
            return
        # Insert below the line of the first entry, which for a container is its name.
        end = self._text.find("\n", first.end)
        at, before = (end + 1, "") if end >= 0 else (len(self._text), self._end)
        self._put(at, at, before + self._lines(lines, span.col))

    def _insert_before(self, span: Span, lines: list[str]) -> None:
        """Insert lines before the first key or dash, and above the comments that belong to that line."""
        begin = self._text.rfind("\n", 0, span.first) + 1
        indent = " " * span.col
        if self._text[begin : span.first].strip(" "):
            # The first key is on the line of a dash.
            self._put(span.first, span.first, "".join(f"{line}{self._end}{indent}" for line in lines))
            return
        while span.col and begin:
            above = self._text.rfind("\n", 0, begin - 1) + 1
            # A comment at another column belongs to the lines above it.
            if not self._text.startswith(f"{indent}#", above):
                break
            begin = above
        self._put(begin, begin, self._lines(lines, span.col))

    def _lines(self, lines: list[str], col: int) -> str:
        indent = " " * col
        return f"{indent}{f'{self._end}{indent}'.join(lines)}{self._end}"

    def _replace(self, span: Span, after: Json, flow: bool) -> None:
        """Write a complete value: in block style if it replaces an empty one, else on one line."""
        is_empty = self._text[span.start : span.end] in ("", "{}", "[]", "null", "~")
        begin = self._text.rfind("\n", 0, span.start) + 1
        rest = self._text[span.end :].partition("\n")[0].strip(" \r")
        if isinstance(after, (dict, list)) and after and is_empty and not flow and not rest:
            line = self._text[begin : span.start]
            col = len(line) - len(line.lstrip(" -")) + 2
            lines = _lines(after)
            start = begin + len(line.rstrip(" "))
            self._put(start, span.end, "".join(f"{self._end}{' ' * col}{each}" for each in lines))
            return
        space = " " if span.start == span.end and self._text[span.start - 1 : span.start] not in (" ", "") else ""
        self._put(span.start, span.end, space + writer.flow(after))

    def _put(self, start: int, end: int, new: str) -> None:
        edit = self.edits.setdefault((start, end), (start, end, new))
        if edit[2] != new:
            raise SpliceError(
                "an alias gives two objects the same text, but they need different wiring",
                at=Location(self._name, self._text.count("\n", 0, self._alias) + 1) if self._alias >= 0 else None,
                fix="write one of them out",
            )


def _lines(new: dict[str, Any] | list[Json]) -> list[str]:
    """Return a new value as lines that start at column 0."""
    return writer.block(new) if isinstance(new, dict) else writer.items(new)


def _has_only_comments(text: str) -> bool:
    """Return whether a value is a pair of braces or brackets with only comments between them."""
    # A comment needs a blank before it, also after an insertion.
    if text[:1] not in ("{", "[") or text[1:2] not in (" ", "\t", "\n", "\r") or "#" not in text:
        return False
    return all(line[:1] in ("", "#") for line in map(str.strip, text[1:-1].split("\n")))


def _expect(span: Span, kind: str) -> None:
    if span.kind != kind:
        raise SpliceError(f"expected a {kind} in the text")
