"""Cut a stream of YAML documents at its `---` lines."""

from __future__ import annotations

from postrender import yamlfast
from postrender.errors import InputError, Location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Final

    from postrender.plain import Plain

# Helm stores a release in an object of 1 MiB at most: whatever is larger by far is no stream of manifests.
MAX_BYTES: Final = 128 * 1024 * 1024
# So many bytes are read in one go.
_PART = 16 * 1024
_SOURCE = b"# Source: "
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MARK = b"---"
_AFTER_MARK = (b"", b" ", b"\n", b"\r", b"\t")


class Document:
    """One document of a stream: `data` from `start` to `end`, with the `---` line in front of it if there is one."""

    __slots__ = ("_text", "data", "end", "number", "start")

    def __init__(self, data: bytes, number: int, start: int, end: int) -> None:
        self.data = data
        self.number = number
        self.start = start
        self.end = end
        self._text: str | None = None

    @property
    def line(self) -> int:
        """Return the line of the stream in which the document starts, counted from 1."""
        return self.data.count(b"\n", 0, self.start) + 1

    @property
    def has_mark(self) -> bool:
        """Say whether the document begins with a `---` line."""
        at = self.start + len(_MARK)
        return self.data.startswith(_MARK, self.start) and self.data[at : at + 1] in _AFTER_MARK

    @property
    def source(self) -> str:
        """Return the template that Helm says it comes from, or an empty text."""
        at = self.data.find(_SOURCE, self.start, min(self.end, self.start + 512))
        line = self.data[at : self.data.find(b"\n", at)] if at >= 0 else b""
        return line.removeprefix(_SOURCE).decode("utf-8", "replace").strip()

    @property
    def name(self) -> str:
        """Return how messages call the document."""
        return f"document {self.number}{f' ({self.source})' if self.source else ''}"

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

    def parse(self, text: str, *, plain: bool) -> Plain:
        """Read a text that stands for this document, with the fast parser where it is known to be plain.

        Raises InputError with the line in the stream.
        """
        if plain:
            return yamlfast.parse(text)
        from postrender import yamlio

        try:
            objects = yamlio.load_objects(text, self.name)
        except InputError as error:
            raise self.moved(error) from error
        if len(objects) > 1:
            raise InputError("two documents without a --- line between them", at=Location(self.name, self.line))
        return objects[0] if objects else None

    def moved(self, error: InputError) -> InputError:
        """Return an error of this document's text with the line in the stream."""
        inner = error.at.line - 1 if error.at else 0
        return type(error)(error.message, at=Location(self.name, self.line + inner), fix=error.fix)


class Words:
    """Find the documents that hold one of some words; they are asked for in order, so that every byte is read once."""

    __slots__ = ("_data", "_places")

    def __init__(self, data: bytes, words: Iterable[bytes]) -> None:
        self._data = data
        self._places = {word: self._find(word, 0) for word in words}

    def are_in(self, start: int, end: int) -> bool:
        """Say whether a word begins between two offsets, of which the first is not in front of the last one's."""
        for word, at in self._places.items():
            if at < start:
                self._places[word] = self._find(word, start)
            if self._places[word] < end:
                return True
        return False

    def _find(self, word: bytes, start: int) -> int:
        at = yamlfast.find(self._data, word, start)
        return at if at >= 0 else len(self._data)


def split(data: bytes) -> Iterator[Document]:
    """Yield the documents of a stream, in order; a byte order mark and empty lines in front of them belong to none."""
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
    """Return the offset of the first `---` line behind a document's start, or the end of the stream."""
    at = yamlfast.find(data, b"\n---", start)
    while at >= 0 and data[at + 4 : at + 5] not in _AFTER_MARK:
        at = yamlfast.find(data, b"\n---", at + 4)
    return at + 1 if at >= 0 else len(data)


def parts(documents: Sequence[Document], size: int, most: int) -> list[list[Document]]:
    """Put together what is read in one go, documents until they have a size; `size` is that of all of them.

    There are `most` parts at most.
    """
    found: list[list[Document]] = []
    limit = max(_PART, 2 * size // most)
    room = 0
    for document in documents:
        if room <= 0:
            found.append([])
            room = limit
        found[-1].append(document)
        room -= document.end - document.start
    return found
