"""Read the files in which Weights & Biases stores a run on disk, offline or not: run-ID.wandb.

wandb 0.31.0 no longer has a reader in Python, so no library is needed. Sources: wandb/sdk/internal/datastore.py at
v0.16.0 (the log: blocks of records as in LevelDB, with another checksum) and wandb/proto/wandb_internal.proto at
v0.31.0 (the messages; a field number never changes its meaning).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from grpo.runlog import scalars
from postrender import json_text
from postrender.errors import Location, UnreadableError
from steps import Event

_SUFFIX: Final = ".wandb"
_HEADER_BYTES: Final = 7
_BLOCK_BYTES: Final = 32768
_WHOLE: Final = 1
_FIRST: Final = 2
_LAST: Final = 4
# Fields of the messages Record, HistoryRecord, HistoryItem and HistoryStep.
_HISTORY: Final = 2
_ITEM: Final = 1
_STEP: Final = 2
_KEY: Final = 1
_NESTED_KEY: Final = 2
_VALUE: Final = 16
_NUMBER: Final = 1


def is_file(path: str) -> bool:
    """Return whether a path is such a file's, by its name."""
    return path.endswith(_SUFFIX)


def files(directory: str) -> list[str]:
    """Return the files below a directory, ordered by their folders' names, which start with the kind and the date."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names if is_file(name)]
    # latest-run is a link, which os.walk does not enter.
    return sorted(found, key=lambda path: os.path.basename(os.path.dirname(path)).removeprefix("offline-"))


def read(paths: Sequence[str], *, follow: bool) -> Iterator[list[Event]]:
    """Yield the events of files, the trainer's oldest start first; a later start takes precedence.

    Raises UnreadableError if a file cannot be read, and InputError if the files have no steps.
    """
    found = [File(path) for path in paths]
    return scalars.events(lambda: _rows(found), paths[-1], follow=follow)


class File:
    """A file that may still grow: each look continues where the previous one stopped."""

    def __init__(self, path: str) -> None:
        """Start after the header."""
        self.path = path
        self.at = _HEADER_BYTES
        self.rows: scalars.Rows = {}

    def look(self) -> None:
        """Add new records to the rows; raise UnreadableError if the file cannot be read."""
        # Records are cut at the ends of blocks.
        start = self.at - self.at % _BLOCK_BYTES
        try:
            with open(self.path, "rb") as file:
                file.seek(start)
                data = file.read()
        except OSError as error:
            raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(self.path)) from error
        for record, end in _records(data, self.at - start):
            self.at = start + end
            for number, content in _fields(record):
                if number == _HISTORY and isinstance(content, bytes):
                    step, row = _history(content)
                    self.rows.setdefault(step, {}).update(row)


def _rows(found: Sequence[File]) -> scalars.Rows:
    rows: scalars.Rows = {}
    for file in found:
        file.look()
        for step, row in file.rows.items():
            rows.setdefault(step, {}).update(row)
    return rows


def _records(data: bytes, at: int) -> Iterator[tuple[bytes, int]]:
    """Yield a log's records and their end offsets, stopping at a damaged or incomplete record."""
    parts = b""
    while at + _HEADER_BYTES <= len(data):
        if (left := _BLOCK_BYTES - at % _BLOCK_BYTES) < _HEADER_BYTES:
            at += left
            continue
        checksum, size, kind = struct.unpack_from("<IHB", data, at)
        part = data[at + _HEADER_BYTES : at + _HEADER_BYTES + size]
        if len(part) < size or zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum:
            return
        at += _HEADER_BYTES + size
        parts = part if kind in (_WHOLE, _FIRST) else parts + part
        if kind in (_WHOLE, _LAST):
            yield parts, at


def _history(message: bytes) -> tuple[int, dict[str, float]]:
    """Return a step's number, and its values by name."""
    step, row = 0, {}
    for number, content in _fields(message):
        if number == _STEP and isinstance(content, bytes):
            step = next((value for field, value in _fields(content) if field == _NUMBER), 0)  # type: ignore[assignment]
        elif number == _ITEM and isinstance(content, bytes):
            item = [(field, value) for field, value in _fields(content) if isinstance(value, bytes)]
            name = ".".join(value.decode() for field, value in item if field in (_KEY, _NESTED_KEY))
            value = json_text.loads(next((value for field, value in item if field == _VALUE), b"null"))
            if isinstance(value, int | float):
                row[name] = float(value)
    return step, row


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield a protocol buffer message's fields as number and content; groups do not occur here."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            size, at = _varint(message, at)
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a varint, seven bits per byte, and the offset of its end."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
