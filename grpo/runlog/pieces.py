"""Read a file or a pipe piece by piece, even while it grows."""

from __future__ import annotations

import codecs
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from typing import Final

from postrender.errors import Location, UnreadableError

PIECE_BYTES: Final = 1 << 20
# How often a file that grows is looked at.
PAUSE_SECONDS: Final = 0.5


def of_file(path: str, *, follow: bool, pause: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Yield a file's text; with `follow`, continue with what is appended, and yield "" while nothing is.

    A file that became shorter is read from its start, because another attempt is writing it. Raises UnreadableError if
    the file cannot be read.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            yield from text(_of_file(file, path, follow=follow, pause=pause))
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path)) from error


def _of_file(file: FileIO, path: str, *, follow: bool, pause: Callable[[float], None]) -> Iterator[bytes]:
    while True:
        if piece := file.read(PIECE_BYTES):
            yield piece
        elif not follow:
            return
        else:
            yield b""
            pause(PAUSE_SECONDS)
            if os.stat(path).st_size < file.tell():
                file.seek(0)


def of_pipe(descriptor: int) -> Iterator[bytes]:
    """Yield what arrives through a pipe, and b"" while nothing arrives."""
    while True:
        ready, _, _ = select.select([descriptor], [], [], PAUSE_SECONDS)
        if not ready:
            yield b""
        elif piece := os.read(descriptor, PIECE_BYTES):
            yield piece
        else:
            return


def text(found: Iterable[bytes]) -> Iterator[str]:
    """Decode pieces of UTF-8 that may be cut anywhere; invalid bytes become a replacement character."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return (decode(piece) for piece in found)
