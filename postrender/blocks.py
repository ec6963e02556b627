"""Find where the parts of a plain block-style document stand, without a YAML library, or say that it is not plain.

Importing a parser with positions takes longer than all else that the post-renderer does. What is read here is the YAML
that Helm's templates and toYaml print: block maps and lists, texts, `{}` and `[]`; and of that only what somebody asks
for: the lines of a part that needs no edit are passed over. An error here cannot do harm: `splice` reads the edited
text again with a parser and compares.
"""

from __future__ import annotations

from itertools import accumulate

from postrender.errors import NotPlainError
from postrender.spots import Spot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postrender.spots import Kind

# Text that other readers may cut into lines, or indent, in another way.
_ODD = ("\t", "\r", "\u2028", "\u2029", "\ufeff", "<<:", "<< ", *map(chr, (*range(127, 160), 0xFFFE, 0xFFFF)))
# What a value must not start with here: anchors, aliases, tags.
_MARKS = "&*!"
_BEFORE_MARKS = frozenset(":-[{,?\n")
# What a plain key or value cannot start with: the marks, directives, flow, reserved, complex keys.
_INDICATORS = frozenset("&*!%@`?,[]{}|>'\"#")
_CLOSERS = {"{": "}", "[": "]"}
_DASHES = ("- ", "-")


def is_plain(text: str) -> bool:
    """Say whether a document has no anchors, aliases, tags, merge keys, directives and odd white space."""
    if any(mark in text for mark in _ODD) or text[:1] == "%" or "\n%" in text or "\n..." in text:
        return False
    return not any(_starts_value(text, mark) for mark in _MARKS)


def _starts_value(text: str, mark: str) -> bool:
    at = text.find(mark)
    while at >= 0:
        before = text[text.rfind("\n", 0, at) + 1 : at].rstrip(" ")
        # In quotes it is text; the quotes of a line that goes on from the one above only make more lines doubtful.
        is_quoted = (before.count('"') - before.count('\\"')) % 2 == 1
        starts = bool(before) and before[-1] in _BEFORE_MARKS and (text[at - 1] == " " or before[-1] in "[{,")
        if not before or (starts and not is_quoted):
            return True
        at = text.find(mark, at + 1)
    return False


def scan(text: str) -> Spot | None:
    """Return the root map of a document that `is_plain`, which may start with a `---` line; None where there is none.

    Where a part of it turns out not to be plain when its spots are asked for, that raises NotPlainError.
    """
    lines = _Lines(text)
    begin = 1 if text.startswith("---") else 0
    if begin and lines.texts[0][3:].partition("#")[0].strip(" "):
        return None
    first = lines.content(begin, len(lines.texts))
    if first < 0 or lines.cols[first] != 0 or lines.texts[first][:2] in _DASHES:
        return None
    return _Map(lines, first, len(lines.texts), 0)


class _Lines:
    """Hold the lines of a document with their columns and offsets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.texts = text.split("\n")
        self.bodies = [line.lstrip(" ") for line in self.texts]
        self.cols = [len(line) - len(body) for line, body in zip(self.texts, self.bodies, strict=True)]
        self.starts = [0, *accumulate(len(line) + 1 for line in self.texts)]

    def content(self, begin: int, end: int) -> int:
        """Return the first line of a range that is neither empty nor a comment, or -1."""
        bodies = self.bodies
        for at in range(begin, end):
            if bodies[at] and bodies[at][0] != "#":
                return at
        return -1

    def last(self, begin: int, end: int) -> int:
        """Return the offset behind the last line of a range that is neither empty nor a comment."""
        at = end - 1
        while at > begin and (not self.bodies[at] or self.bodies[at][0] == "#"):
            at -= 1
        return self.starts[at] + len(self.texts[at].rstrip(" "))

    def value(self, at: int, start: int, end: int, col: int, *, item: bool) -> Spot:
        """Return the spot of a value: on line `at` from column `start` on, or below, before line `end`.

        `col` is the column of its key or dash; a list may stand in the column of its key.
        """
        body = self.texts[at][start:].lstrip(" ")
        if body and body[0] != "#":
            inner = len(self.texts[at]) - len(body)
            if item and body[0] not in _INDICATORS and _key_end(body, 0) >= 0:
                return _Map(self, at, end, inner)
            return self._beside(at, inner, end, body[0])
        below = self.content(at + 1, end)
        if below < 0:
            null = self.starts[at] + start
            return Spot("scalar", null, null)
        deeper = self.cols[below]
        if self.bodies[below][:2] in _DASHES and deeper >= col:
            return _List(self, below, end, deeper)
        if deeper <= col:
            raise NotPlainError
        if _key_end(self.bodies[below], 0) >= 0:
            return _Map(self, below, end, deeper)
        # What toYaml makes of an empty map, with nindent: `{}` on a line of its own.
        return self._beside(below, deeper, end, self.bodies[below][0])

    def _beside(self, at: int, start: int, end: int, kind: str) -> Spot:
        begin = self.starts[at] + start
        if kind in "'\"" and _is_key(self.text, _quoted_end(self.text, begin)):
            # A quoted key.
            raise NotPlainError
        if kind in _CLOSERS:
            return Spot("closed", begin, self._flow_end(at, start, end), flow=True)
        if kind in _INDICATORS - frozenset("|>'\"") or self.texts[at][start : start + 2] in _DASHES:
            raise NotPlainError
        return _Scalar(self, at, begin, end)

    def _flow_end(self, at: int, start: int, end: int) -> int:
        """Return the end of a value in braces or brackets, which must end on its line."""
        line = self.texts[at]
        comment = line.find(" #", start)
        body = (line[start:comment] if comment >= 0 else line[start:]).rstrip(" ")
        bare = _unquoted(body) if "'" in body or '"' in body else body
        balanced = bare.count("{") + bare.count("[") == bare.count("}") + bare.count("]")
        if bare[-1] != _CLOSERS[line[start]] or not balanced or self.content(at + 1, end) >= 0:
            raise NotPlainError
        return self.starts[at] + start + len(body)


class _Scalar(Spot):
    """A text: plain, in quotes or a block, whose end is looked for when it is asked for."""

    def __init__(self, lines: _Lines, at: int, start: int, limit: int) -> None:
        super().__init__("scalar", start, -1)
        self._lines = lines
        self._at = at
        self._limit = limit

    @property
    def end(self) -> int:
        """Return the offset behind the text."""
        if self._end < 0:
            self._end = self._find()
        return self._end

    def _find(self) -> int:
        lines, text = self._lines, self._lines.text
        kind = text[self.start]
        if kind in "|>":
            return (
                lines.starts[self._limit - 1] + len(lines.texts[self._limit - 1]) if self._block() else self.start + 1
            )
        if kind in "'\"":
            return _quoted_end(text, self.start)
        if lines.content(self._at + 1, self._limit) >= 0:
            return lines.last(self._at, self._limit)
        line = text[self.start : lines.starts[self._at] + len(lines.texts[self._at])]
        return self.start + len(line.partition(" #")[0].rstrip(" "))

    def _block(self) -> bool:
        """Take the empty lines off the end of a block text; comments may be text in it."""
        while self._limit > self._at + 1 and not self._lines.bodies[self._limit - 1]:
            self._limit -= 1
        return self._limit > self._at + 1


class _Block(Spot):
    """A map or list in block style, from line `at` to before line `limit`; its parts are looked for when asked for."""

    def __init__(self, kind: Kind, lines: _Lines, at: int, limit: int, col: int) -> None:
        super().__init__(kind, lines.starts[at] + col, -1)
        self.col = col
        self._lines = lines
        self._at = at
        self._limit = limit

    @property
    def end(self) -> int:
        """Return the offset behind the last part."""
        return self._lines.last(self._at, self._limit)


class _Map(_Block):
    """A map in block style."""

    def __init__(self, lines: _Lines, at: int, limit: int, col: int) -> None:
        super().__init__("map", lines, at, limit, col)
        self._places: dict[str, tuple[int, int, int]] | None = None

    @property
    def keys(self) -> dict[str, Spot]:
        """Return the values by their keys."""
        return {key: self.child(key) for key in self.names()}

    def names(self) -> list[str]:
        """Return the keys in their order."""
        return list(self._entries())

    def has(self, key: str) -> bool:
        """Say whether the map has a key."""
        return key in self._entries()

    def key_start(self, key: str) -> int:
        """Return the offset of a key."""
        return self._lines.starts[self._entries()[key][0]] + self.col

    def child(self, key: str) -> Spot:
        """Return the value of a key that is there."""
        if key not in self._keys:
            at, start, limit = self._entries()[key]
            self._keys[key] = self._lines.value(at, start, limit, self.col, item=False)
        return self._keys[key]

    def _entries(self) -> dict[str, tuple[int, int, int]]:
        """Return for each key its line, the column behind its colon, and the line at which its value has ended."""
        if self._places is None:
            self._places = self._read()
        return self._places

    def _read(self) -> dict[str, tuple[int, int, int]]:
        lines, col = self._lines, self.col
        begins = [self._at]
        for at in range(self._at + 1, self._limit):
            if lines.cols[at] <= col:
                body = lines.bodies[at]
                if not body or body[0] == "#" or (lines.cols[at] == col and body[:2] in _DASHES):
                    continue
                if lines.cols[at] < col:
                    raise NotPlainError
                begins.append(at)
        found: dict[str, tuple[int, int, int]] = {}
        for at, limit in zip(begins, [*begins[1:], self._limit], strict=True):
            line = lines.texts[at]
            end = _key_end(line, col)
            if end < 0 or line[col:end] in found:
                raise NotPlainError
            found[line[col:end]] = at, end + 1, limit
        return found


class _List(_Block):
    """A list in block style."""

    def __init__(self, lines: _Lines, at: int, limit: int, col: int) -> None:
        super().__init__("list", lines, at, limit, col)
        self._begins: list[int] = []
        self._found: dict[int, Spot] = {}

    @property
    def items(self) -> list[Spot]:
        """Return the items in order."""
        return [self.item(number) for number in range(self.count())]

    def count(self) -> int:
        """Return the number of items."""
        if not self._begins:
            self._begins = self._read()
        return len(self._begins)

    def item(self, number: int) -> Spot:
        """Return one item."""
        if number not in self._found:
            begins = self._begins[number : number + 2] if self.count() else []
            limit = begins[1] if len(begins) > 1 else self._limit
            self._found[number] = self._lines.value(begins[0], self.col + 1, limit, self.col, item=True)
        return self._found[number]

    def _read(self) -> list[int]:
        lines, col = self._lines, self.col
        begins = []
        for at in range(self._at, self._limit):
            if lines.cols[at] <= col:
                body = lines.bodies[at]
                if not body or body[0] == "#":
                    continue
                if lines.cols[at] < col or body[:2] not in _DASHES:
                    raise NotPlainError
                begins.append(at)
        return begins


def _key_end(line: str, start: int) -> int:
    """Return the offset of the colon behind a plain key, or -1 where there is none."""
    if line[start : start + 1] in _INDICATORS or line[start : start + 2] in _DASHES:
        return -1
    end = line.find(": ", start)
    if end < 0:
        end = len(line.rstrip(" ")) - 1
        if end < start or line[end] != ":":
            return -1
    return -1 if " #" in line[start:end] or end == start or line[end - 1] == " " else end


def _quoted_end(text: str, start: int) -> int:
    quote = text[start]
    end = text.find(quote, start + 1)
    while end >= 0:
        if quote == "'" and text[end + 1 : end + 2] == "'":
            end = text.find(quote, end + 2)
        elif quote == '"' and _is_escaped(text, end):
            end = text.find(quote, end + 1)
        else:
            return end + 1
    raise NotPlainError


def _is_key(text: str, end: int) -> bool:
    return text[end : text.find("\n", end) + 1].lstrip(" ")[:1] == ":"


def _is_escaped(text: str, at: int) -> bool:
    slashes = at
    while text[slashes - 1] == "\\":
        slashes -= 1
    return (at - slashes) % 2 == 1


def _unquoted(body: str) -> str:
    """Return a flow value without its quoted texts: a bracket in quotes must not be counted."""
    if "\\" in body or "'" in body or body.count('"') % 2:
        raise NotPlainError
    return "".join(body.split('"')[::2])
