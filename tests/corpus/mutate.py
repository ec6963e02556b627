"""Damage streams as editors, templates and networks do: bytes, lines, indentation, line ends, marks of YAML."""

from __future__ import annotations

from collections.abc import Callable

from tests.corpus.cases import EDGES, MARKS, STREAMS, edge
from tests.corpus.proof import cut

# A number below the given one.
Draw = Callable[[int], int]

# Documents to make streams of.
PIECES = [piece for name, data in STREAMS.items() if name != "text.yaml" for piece in cut(data)]
PIECES += [edge(name).encode() for name in EDGES]
_MARKS = [text.encode() for text in MARKS] + [b"\xff", b"\xc2", b"\xed\xa0\x80"]


def stream(draw: Draw) -> bytes:
    """Return some documents one behind the other, most of them with a mark in between."""
    parts = []
    for number in range(1 + draw(4)):
        piece = PIECES[draw(len(PIECES))]
        joined = number and not piece.startswith(b"---") and draw(8)
        parts.append(b"\n---\n" + piece if joined else piece)
    return b"".join(parts)


def mutated(data: bytes, draw: Draw) -> bytes:
    """Return a stream with one more thing wrong."""
    return _WAYS[draw(len(_WAYS))](data, draw)


def _span(data: bytes, draw: Draw) -> tuple[int, int]:
    start = draw(len(data) + 1)
    return start, min(len(data), start + 1 + draw(12 if draw(2) else 200))


def _delete(data: bytes, draw: Draw) -> bytes:
    start, end = _span(data, draw)
    return data[:start] + data[end:]


def _insert(data: bytes, draw: Draw) -> bytes:
    at = draw(len(data) + 1)
    return data[:at] + _MARKS[draw(len(_MARKS))] + data[at:]


def _insert_at_a_word(data: bytes, draw: Draw) -> bytes:
    """Insert where it means something: behind a colon or a dash, or at a line's start or end."""
    places = [at for at in range(1, len(data)) if data[at - 1] in b":-\n" or data[at] in b"\n"]
    at = places[draw(len(places))] if places else 0
    space = b" " if data[at - 1 : at] in (b":", b"-") else b""
    return data[:at] + space + _MARKS[draw(len(_MARKS))] + data[at:]


def _repeat(data: bytes, draw: Draw) -> bytes:
    start, end = _span(data, draw)
    at = draw(len(data) + 1)
    return data[:at] + data[start:end] + data[at:]


def _cut_off(data: bytes, draw: Draw) -> bytes:
    at = draw(len(data) + 1)
    return data[:at] if draw(4) else data[at:]


def _flip(data: bytes, draw: Draw) -> bytes:
    at = draw(len(data) + 1)
    return data[:at] + bytes([draw(256)]) + data[at + 1 :]


def _lines(data: bytes, draw: Draw) -> bytes:
    """Swap, repeat, remove, indent or comment out lines."""
    lines = data.split(b"\n")
    first, second, way = draw(len(lines)), draw(len(lines)), draw(6)
    if way == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif way == 1:
        lines.insert(second, lines[first])
    elif way == 2:
        del lines[first]
    elif way == 3:
        lines[first] = b" " * (1 + draw(3)) + lines[first]
    elif way == 4:
        lines[first] = lines[first].removeprefix(b" ").removeprefix(b" ")
    else:
        lines[first] = lines[first][: len(lines[first]) - len(lines[first].lstrip())] + b"# " + lines[first].lstrip()
    return b"\n".join(lines)


def _shift(data: bytes, draw: Draw) -> bytes:
    """Indent some lines together."""
    lines = data.split(b"\n")
    start = draw(len(lines))
    end, columns = start + 1 + draw(8), 1 + draw(3)
    shifted = [b" " * columns + line for line in lines[start:end]]
    return b"\n".join([*lines[:start], *shifted, *lines[end:]])


def _line_ends(data: bytes, draw: Draw) -> bytes:
    ends = (b"\r\n", b"\r", b"\n\n", b" \n", b"\t\n", b" # a\n")
    return data.replace(b"\n", ends[draw(len(ends))], draw(2) * 1_000_000 + 1 + draw(5))


_WAYS = (_delete, _insert, _insert_at_a_word, _repeat, _cut_off, _flip, _lines, _lines, _shift, _line_ends)
