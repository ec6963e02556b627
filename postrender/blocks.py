"""Find where the parts of a plain block-style document stand, without a YAML library, or say that it is not plain.

Importing a parser with positions takes longer than all else that the post-renderer does. What is read here is the YAML
that Helm's templates and toYaml print: block maps and lists, scalars on one line, block texts, `{}` and `[]`. Whatever
else there is, the answer is None, and the caller asks `composed`. An error here cannot do harm: `splice` reads the
edited text again with a parser and compares.
"""

from __future__ import annotations

from postrender.spots import CLOSED, LIST, MAP, SCALAR, Spot

# Text that other readers may cut into lines, or indent, in another way.
_ODD = ("\t", "\r", "\x85", "\u2028", "\u2029", "\ufeff")
# What a plain key or value cannot start with: anchors, aliases, tags, directives, flow, reserved, complex keys.
_INDICATORS = frozenset("&*!%@`?,[]{}|>'\"#")
_CLOSERS = {"{": "}", "[": "]"}
_MAX_DEPTH = 100


class _NotPlainError(Exception):
    """The document has something that is not read here."""


def scan(text: str) -> Spot | None:
    """Return the root map of a document, which may start with a `---` line, or None where it is not plain."""
    if any(mark in text for mark in _ODD):
        return None
    try:
        return _Scanner(text).root()
    except _NotPlainError:
        return None


class _Scanner:
    """Walk over the lines of one document; `at` is the line that comes next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._at = 0

    def root(self) -> Spot:
        if self._lines[0][:3] == "---":
            if self._lines[0][3:].split("#")[0].strip():
                raise _NotPlainError
            self._at = 1
        col = self._next()
        if col != 0:
            raise _NotPlainError
        spot = self._collection(0, 0, 0)
        if self._next() >= 0:
            raise _NotPlainError
        return spot

    def _next(self) -> int:
        """Go to the next line that is neither empty nor a comment, and return its column; -1 at the end."""
        lines = self._lines
        while self._at < len(lines):
            line = lines[self._at]
            body = line.lstrip(" ")
            if body and body[0] != "#":
                if body[:3] in ("---", "...") and body is line:
                    raise _NotPlainError
                return len(line) - len(body)
            self._at += 1
        return -1

    def _collection(self, col: int, depth: int, skip: int) -> Spot:
        """Read the map or list whose first line is the next one; `skip` is where it starts behind a dash."""
        if depth > _MAX_DEPTH:
            raise _NotPlainError
        line = self._lines[self._at]
        if line[col : col + 2] in ("- ", "-"):
            if skip:
                raise _NotPlainError
            return self._list(col, depth)
        return self._map(col, depth)

    def _list(self, col: int, depth: int) -> Spot:
        spot = Spot(LIST, self._starts[self._at] + col, 0)
        spot.col = col
        while self._next() == col and self._lines[self._at][col : col + 2] in ("- ", "-"):
            line = self._lines[self._at]
            body = line[col + 1 :].lstrip(" ")
            inner = len(line) - len(body)
            if not body or body[0] == "#":
                spot.items.append(self._below(col, depth, len(line.rstrip(" ")) if not body else col + 1, same=False))
            elif body[0] not in _INDICATORS and _key_end(body) >= 0:
                spot.items.append(self._collection(inner, depth + 1, inner))
            else:
                spot.items.append(self._value(inner, col))
        spot.end = spot.items[-1].end
        return spot

    def _map(self, col: int, depth: int) -> Spot:
        spot = Spot(MAP, self._starts[self._at] + col, 0)
        spot.col = col
        first = True
        last = spot
        while first or self._next() == col:
            line = self._lines[self._at]
            if not first and line[col : col + 2] in ("- ", "-"):
                break
            first = False
            end = _key_end(line, col)
            key = line[col : end if end >= 0 else None]
            if end < 0 or key in spot.keys or key == "<<":
                raise _NotPlainError
            body = line[end + 1 :].lstrip(" ")
            if not body or body[0] == "#":
                last = self._below(col, depth, end + 1, same=True)
            else:
                last = self._value(len(line) - len(body), col)
            spot.keys[key] = last
        spot.end = last.end
        return spot

    def _below(self, col: int, depth: int, end: int, *, same: bool) -> Spot:
        """Read what follows `key:` or a lone dash on lines of its own; nothing there is null."""
        null = self._starts[self._at] + end
        self._at += 1
        below = self._next()
        is_list = below >= 0 and self._lines[self._at][below : below + 2] in ("- ", "-")
        if below > col or (same and is_list and below == col):
            if not is_list and _key_end(self._lines[self._at], below) < 0:
                # What toYaml makes of an empty map, with nindent: `{}` on a line of its own.
                if self._lines[self._at][below] not in _CLOSERS:
                    raise _NotPlainError
                return self._value(below, col)
            return self._collection(below, depth + 1, 0)
        return Spot(SCALAR, null, null)

    def _value(self, start: int, col: int) -> Spot:
        """Read a value on the line of its key or dash; `col` is the column that what goes on must exceed."""
        line = self._lines[self._at]
        here = self._starts[self._at]
        kind = line[start]
        if kind in "|>":
            return self._block_text(here + start, col)
        if kind in "'\"":
            end = self._quoted(here + start, col)
        elif kind in _CLOSERS:
            end = here + self._rest(line, _flow_end(line, start))
        elif kind in _INDICATORS or line[start : start + 2] == "- ":
            raise _NotPlainError
        else:
            end = here + self._rest(line, _plain_end(line, start))
        self._at += 1
        if self._next() > col:
            if kind in _CLOSERS or kind in "'\"" or self._starts[self._at] - 1 != end:
                raise _NotPlainError
            end = self._continued(col)
        return Spot(CLOSED if kind in _CLOSERS else SCALAR, here + start, end, flow=kind in _CLOSERS)

    def _rest(self, line: str, end: int) -> int:
        """Return the end of a value again; behind it only a comment may stand."""
        rest = line[end:].lstrip(" ")
        if rest and (rest[0] != "#" or line[end] != " "):
            raise _NotPlainError
        return end

    def _continued(self, col: int) -> int:
        """Read the further lines of a text without quotes, and return its end."""
        end = 0
        while self._next() > col:
            line = self._lines[self._at]
            body = line.strip(" ")
            if ": " in body or body[-1] == ":" or " #" in body or body[0] == "#":
                raise _NotPlainError
            end = self._starts[self._at] + len(line.rstrip(" "))
            self._at += 1
        return end

    def _quoted(self, start: int, col: int) -> int:
        """Return the end of a text in quotes, and go to the line on which it ends."""
        text, quote = self._text, self._text[start]
        end = text.find(quote, start + 1)
        while end >= 0:
            if quote == "'" and text[end + 1 : end + 2] == "'":
                end = text.find(quote, end + 2)
            elif quote == '"' and _is_escaped(text, end):
                end = text.find(quote, end + 1)
            else:
                break
        if end < 0:
            raise _NotPlainError
        while self._starts[self._at + 1] <= end:
            self._at += 1
            line = self._lines[self._at]
            # Whatever is at the left of its key belongs to something else, or the text is damaged.
            if line.strip(" ") and len(line) - len(line.lstrip(" ")) <= col:
                raise _NotPlainError
        self._rest(self._lines[self._at], end + 1 - self._starts[self._at])
        return end + 1

    def _block_text(self, start: int, col: int) -> Spot:
        """Read a block text: every line that is empty or deeper than what holds it."""
        lines = self._lines
        self._at += 1
        last = self._at - 1
        prefix = " " * (col + 1)
        while self._at < len(lines):
            line = lines[self._at]
            if line.startswith(prefix):
                last = self._at
            elif line.strip(" "):
                break
            self._at += 1
        # An empty last line belongs to the text where it is kept (`|+`), and else to nothing.
        return Spot(SCALAR, start, self._starts[last] + len(lines[last]))


def _key_end(line: str, start: int = 0) -> int:
    """Return the offset of the colon behind a key, or -1 where there is no plain or simply quoted key."""
    first = line[start : start + 1]
    if first in ("'", '"'):
        return -1
    if first in _INDICATORS or line[start : start + 2] in ("- ", "-"):
        return -1
    end = line.find(": ", start)
    if end < 0:
        end = len(line.rstrip(" ")) - 1
        if end < start or line[end] != ":":
            return -1
    return -1 if " #" in line[start:end] or line[end - 1] == " " or end == start else end


def _is_escaped(text: str, at: int) -> bool:
    slashes = at
    while text[slashes - 1] == "\\":
        slashes -= 1
    return (at - slashes) % 2 == 1


def _flow_end(line: str, start: int) -> int:
    """Return the end of a value in braces or brackets that ends on its line, counted without any quoted text."""
    end = line.find(" #", start)
    body = (line[start:end] if end >= 0 else line[start:]).rstrip(" ")
    # A bracket in quotes must not be counted; JSON on one line is common.
    bare = _unquoted(body) if "'" in body or '"' in body else body
    if bare[-1] != _CLOSERS[line[start]] or bare.count("{") + bare.count("[") != bare.count("}") + bare.count("]"):
        raise _NotPlainError
    return start + len(body)


def _unquoted(body: str) -> str:
    if "\\" in body or "'" in body or body.count('"') % 2:
        raise _NotPlainError
    return "".join(body.split('"')[::2])


def _plain_end(line: str, start: int) -> int:
    end = line.find(" #", start)
    body = (line[start:end] if end >= 0 else line[start:]).rstrip(" ")
    if ": " in body or body[-1] == ":":
        raise _NotPlainError
    return start + len(body)
