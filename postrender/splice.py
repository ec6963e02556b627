"""Edit the text of a document so that it reads as another object: insertions and replacements, and no byte besides.

New entries of a map stand behind its first line, new items of a list in front; what is taken away, or changes its
kind, makes the value be written anew. `edited` reads the result again, and raises where it is not what was asked for.
"""

from __future__ import annotations

import marshal

from postrender import quoted
from postrender.errors import InputError, NotPlainError, SpliceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postrender.plain import Plain
    from postrender.spots import Spot

    # Start, end, and the text that stands there afterwards.
    Edit = tuple[int, int, str]


_written: dict[bytes, list[str]] = {}


def same(left: Plain, right: Plain) -> bool:
    """Say whether two values are equal and of the same types: 1, 1.0 and true are three values."""
    return bool(left == right) and _has_types(left, right)


def _has_types(found: Plain, wanted: Plain) -> bool:
    """Say whether a value that equals another one is of its types; what equals a text is one."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            if not isinstance(value, str) and not _has_types(found[key], value):
                return False
        return True
    return all(map(_has_types, found, wanted)) if isinstance(wanted, list) else type(found) is type(wanted)


def _is(found: Plain, before: Plain, after: Plain) -> bool:
    """Say whether what is read is what was asked for; types count where something has changed."""
    return bool(found == after) and _has_new_types(found, before, after)


def _has_new_types(found: Plain, before: Plain, after: Plain) -> bool:
    if before is after or before == after:
        # Text that nobody touched reads as it did.
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


def edited(
    text: str,
    before: Plain,
    after: Plain,
    parse: Callable[[str], Plain],
    scan: Callable[[str], Spot],
    *,
    root: Spot | None = None,
) -> str:
    """Return the text that reads as `after`, where `text` reads as `before`.

    `parse` reads a text; `scan` finds the spots of any text, where `root`, what a fast scanner has found, does not do.
    Raises SpliceError where no edit has the wanted effect and no other, and InputError for a text that is no YAML.
    """
    if root is not None:
        try:
            result = _apply(text, _edits(text, root, before, after))
            if _is(parse(result), before, after):
                return result
        except (NotPlainError, InputError):
            # The full scanner has the last word, and the better reason.
            pass
    result = _apply(text, _edits(text, scan(text), before, after))
    try:
        as_wanted = _is(parse(result), before, after)
    except InputError:
        as_wanted = False
    if not as_wanted:
        raise SpliceError("the edited document would not read as it should; an anchor or a merge key may be in the way")
    return result


def _apply(text: str, edits: list[Edit]) -> str:
    parts, at = [], 0
    for start, end, new in sorted(edits):
        if start < at:
            raise SpliceError("two edits of the document overlap")
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _edits(text: str, root: Spot, before: Plain, after: Plain) -> list[Edit]:
    editor = _Editor(text)
    if before != after:
        editor.walk(root, before, after)
    return list(editor.edits.values())


class _Editor:
    """Collect the edits of one document; two for one place must be the same, as an alias stands for its anchor."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = "\r\n" if "\r\n" in text else "\n"
        self.edits: dict[tuple[int, int], Edit] = {}

    def walk(self, spot: Spot, before: Plain, after: Plain, *, flow: bool = False) -> None:
        """Go down to where two values differ; `flow` says that the value stands in braces or brackets."""
        if isinstance(before, dict) and isinstance(after, dict) and before and before.keys() <= after.keys():
            self._walk_map(spot, before, after, flow or spot.flow)
        elif isinstance(before, list) and isinstance(after, list) and before and len(after) >= len(before):
            self._walk_list(spot, before, after, flow or spot.flow)
        elif isinstance(after, type(before)) and _holds_comments_alone(self._text[spot.start : spot.end]):
            self._put(spot.start + 1, spot.start + 1, quoted.flow(after)[1:-1])
        else:
            self._replace(spot, after, flow)

    def _walk_map(self, spot: Spot, before: dict[str, Any], after: dict[str, Any], flow: bool) -> None:
        _open(spot, "map")
        new = {key: value for key, value in after.items() if key not in before}
        if spot.has("<<") and (new or not all(map(spot.has, before))):
            raise SpliceError("a map that must be edited is merged from another one by <<", fix="write its entries out")
        for key, value in before.items():
            if value is after[key] or value == after[key]:
                continue
            if not spot.has(key):
                raise SpliceError(f"the key {key} cannot be found in the text")
            self.walk(spot.child(key), value, after[key], flow=flow)
        if new and flow:
            self._put(spot.start + 1, spot.start + 1, quoted.flow(new)[1:-1] + ", ")
        elif new:
            self._insert_entries(spot, _lines(new))

    def _walk_list(self, spot: Spot, before: list[Plain], after: list[Plain], flow: bool) -> None:
        _open(spot, "list")
        if spot.count() != len(before):
            raise SpliceError("a list has not as many items as it reads to have")
        new = after[: len(after) - len(before)]
        for number, (old, wanted) in enumerate(zip(before, after[len(new) :], strict=True)):
            if old is not wanted and old != wanted:
                self.walk(spot.item(number), old, wanted, flow=flow)
        if new and flow:
            self._put(spot.start + 1, spot.start + 1, quoted.flow(new)[1:-1] + ", ")
        elif new:
            self._insert_before(spot, _lines(new))

    def _insert_entries(self, spot: Spot, lines: list[str]) -> None:
        first = spot.child(spot.names()[0])
        is_nested = first.kind in ("map", "list") and not first.flow
        if is_nested or first.start < spot.first or "\n" in self._text[first.start : first.end]:
            self._insert_before(spot, lines)
            return
        # Behind the line of the first entry, which for a container is its name.
        end = self._text.find("\n", first.end)
        at, before = (end + 1, "") if end >= 0 else (len(self._text), self._end)
        self._put(at, at, before + self._lines(lines, spot.col))

    def _insert_before(self, spot: Spot, lines: list[str]) -> None:
        """Insert lines before the first key or dash, and above the comments that belong to it."""
        begin = self._text.rfind("\n", 0, spot.first) + 1
        indent = " " * spot.col
        if self._text[begin : spot.first].strip(" "):
            # The first key or dash stands behind a dash.
            self._put(spot.first, spot.first, "".join(f"{line}{self._end}{indent}" for line in lines))
            return
        while spot.col and begin:
            above = self._text.rfind("\n", 0, begin - 1) + 1
            # A comment at another column belongs to what is above.
            if not self._text.startswith(f"{indent}#", above):
                break
            begin = above
        self._put(begin, begin, self._lines(lines, spot.col))

    def _lines(self, lines: list[str], col: int) -> str:
        indent = " " * col
        return f"{indent}{f'{self._end}{indent}'.join(lines)}{self._end}"

    def _replace(self, spot: Spot, after: Plain, flow: bool) -> None:
        """Write a value anew: in block style in place of nothing or an empty value, and else on one line."""
        is_empty = self._text[spot.start : spot.end] in ("", "{}", "[]", "null", "~")
        begin = self._text.rfind("\n", 0, spot.start) + 1
        rest = self._text[spot.end :].partition("\n")[0].strip(" \r")
        if isinstance(after, (dict, list)) and after and is_empty and not flow and not rest:
            line = self._text[begin : spot.start]
            col = len(line) - len(line.lstrip(" -")) + 2
            lines = _lines(after)
            start = begin + len(line.rstrip(" "))
            self._put(start, spot.end, "".join(f"{self._end}{' ' * col}{each}" for each in lines))
            return
        space = " " if spot.start == spot.end and self._text[spot.start - 1 : spot.start] not in (" ", "") else ""
        self._put(spot.start, spot.end, space + quoted.flow(after))

    def _put(self, start: int, end: int, new: str) -> None:
        edit = self.edits.setdefault((start, end), (start, end, new))
        if edit[2] != new:
            raise SpliceError(
                "an alias makes one text stand for two objects that need different wiring", fix="write one of them out"
            )


def _lines(new: dict[str, Any] | list[Plain]) -> list[str]:
    """Return new text as lines from column 0; most pods get the same."""
    # Version 0: equal values of equal types in one order give equal bytes, in a fraction of the time of `repr`.
    key = marshal.dumps(new, 0)
    if key not in _written:
        _written[key] = quoted.block(new) if isinstance(new, dict) else quoted.items(new)
    return _written[key]


def _holds_comments_alone(text: str) -> bool:
    """Say whether a value is braces or brackets around comments, which stay when it is filled."""
    # A comment needs a blank in front of it, for what is put there too.
    if text[:1] not in ("{", "[") or text[1:2] not in (" ", "\t", "\n", "\r") or "#" not in text:
        return False
    return all(line[:1] in ("", "#") for line in map(str.strip, text[1:-1].split("\n")))


def _open(spot: Spot, kind: str) -> None:
    if spot.kind == "closed":
        # Of a value only the ends are known.
        raise NotPlainError
    if spot.kind != kind:
        raise SpliceError(f"expected a {kind} in the text")
