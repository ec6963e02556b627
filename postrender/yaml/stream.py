"""Split a stream of YAML documents at its `---` lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from postrender.errors import InputError, Location
from postrender.types import Json
from postrender.yaml import reader

# Helm stores a release in an object of at most 1 MiB, so a much larger input is not a stream of manifests.
MAX_BYTES: Final = 128 * 1024 * 1024
_SOURCE = b"# Source: "
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MARK = b"---"
_AFTER_MARK = (b"", b" ", b"\n", b"\r", b"\t")


class Document:
    """One document of a stream: `data` from `start` to `end`, including its `---` line."""

    __slots__ = ("_text", "data", "end", "number", "start")

    def __init__(self, data: bytes, number: int, start: int, end: int) -> None:
        self.data = data
        self.number = number
        self.start = start
        self.end = end
        self._text: str | None = None

    @property
    def line(self) -> int:
        """Return the line in the stream where the document starts, counted from 1."""
        return self.data.count(b"\n", 0, self.start) + 1

    @property
    def has_mark(self) -> bool:
        """Return whether the document begins with a `---` line."""
        at = self.start + len(_MARK)
        return self.data.startswith(_MARK, self.start) and self.data[at : at + 1] in _AFTER_MARK

    @property
    def source(self) -> str:
        """Return the template named in Helm's comment, or an empty text."""
        at = self.data.find(_SOURCE, self.start, min(self.end, self.start + 512))
        line = self.data[at : self.data.find(b"\n", at)] if at >= 0 else b""
        return line.removeprefix(_SOURCE).decode("utf-8", "replace").strip()

    @property
    def name(self) -> str:
        """Return the document's name in messages."""
        return f"document {self.number}{f' (from {self.source})' if self.source else ''}"

    def text(self) -> str:
        """Return the document as text; raise InputError with the line of the first byte that is not UTF-8."""
        if self._text is not None:
            return self._text
        raw = self.data[self.start : self.end]
        try:
            self._text = raw.decode("utf-8")
            return self._text
        except UnicodeDecodeError as error:
            line = self.line + raw.count(b"\n", 0, error.start)
            raise InputError(
                f"this is not UTF-8: byte 0x{raw[error.start]:02x}",
                at=Location(self.name, line),
                fix="save the template as UTF-8",
            ) from error

    def parse(self, text: str | None = None) -> Json:
        """Parse the document, or an edited text of it; raise InputError with the line in the stream."""
        try:
            values = reader.load_all(self.text() if text is None else text, self.name)
        except InputError as error:
            raise self.moved(error) from error
        found = [value for value in values if value is not None]
        if len(found) > 1:
            raise InputError("two documents without a --- line between them", at=Location(self.name, self.line))
        return found[0] if found else None

    def head(self) -> Json:
        """Read apiVersion, kind and metadata of the document; raise InputError with the line in the stream."""
        try:
            return reader.load_head(self.text(), self.name)
        except InputError as error:
            raise self.moved(error) from error

    def contains(self, words: Sequence[bytes]) -> bool:
        """Return whether the document contains one of these words."""
        return any(self.data.find(word, self.start, self.end) >= 0 for word in words)

    def moved(self, error: InputError) -> InputError:
        """Return an error with its line in the stream instead of its line in this document."""
        inner = error.at.line - 1 if error.at else 0
        return type(error)(error.message, at=Location(self.name, self.line + inner), fix=error.fix)


def split(data: bytes) -> Iterator[Document]:
    """Yield the documents of a stream in order; a byte order mark and leading empty lines are skipped."""
    number = 0
    start = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    if not data[start : _next(data, start)].strip():
        start = _next(data, start)
    while start < len(data):
        end = _next(data, start)
        number += 1
        yield Document(data, number, start, end)
        start = end


def _next(data: bytes, start: int) -> int:
    """Return the offset of the next `---` line after a document's start, or the end of the stream."""
    at = data.find(b"\n---", start)
    while at >= 0 and data[at + 4 : at + 5] not in _AFTER_MARK:
        at = data.find(b"\n---", at + 4)
    return at + 1 if at >= 0 else len(data)
