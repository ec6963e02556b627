"""A data file on this machine, and the checks that keep unsuitable files from being sent."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from typing import Final

from grpo.cli.jobs import packing
from postrender import textfile
from postrender.errors import InputError, Location, UnreadableError

# A name that no shell, no glob of a framework and no object store reads in another way.
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
NAMES: Final = "letters, digits, and . _ - after the first one"
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class DataFile:
    """A file with its size, its content's digest and a descriptor for reading it."""

    path: str
    size: int
    sha256: str
    descriptor: int

    @property
    def name(self) -> str:
        """Return the file's name without its folder."""
        return os.path.basename(self.path)


def refuse(paths: Sequence[str]) -> None:
    """Raise InputError or UnreadableError for the first file that cannot be sent, and if two files share a name."""
    seen: dict[str, str] = {}
    for path in paths:
        _refuse(path)
        name = os.path.basename(path)
        if name in seen:
            raise InputError(f"{seen[name]} has the same name", at=Location(path), fix="send them to two folders: --to")
        seen[name] = path


def _refuse(path: str) -> None:
    textfile.refuse_outside(path)
    folder, name = os.path.split(path)
    at = Location(path)
    if os.path.isdir(path):
        raise InputError("this is a folder", at=at, fix=f"name its files: {path.rstrip('/')}/*")
    if not os.path.lexists(path):
        raise UnreadableError("there is no such file", at=at, fix="check the path")
    if packing.is_secret(path):
        is_own = packing.is_secret(os.path.join(os.sep, os.path.basename(os.path.realpath(path))))
        fix = "rename it" if is_own else "copy it into a folder with another name"
        raise InputError(packing.HOLDS_SECRETS, at=at, fix=f"{fix} if it is data; everybody on the volume reads it")
    if why := packing.why_not(folder or os.curdir, name):
        raise InputError(why, at=at, fix="name the file of data itself")
    if not NAME.fullmatch(name):
        raise InputError(f"a name on the volume has {NAMES}, at most 200", at=at, fix="rename the file")


@contextlib.contextmanager
def opened(path: str) -> Iterator[DataFile]:
    """Open and measure a file; raise UnreadableError if that fails, and InputError if a short text contains a token."""
    try:
        # Another program reads on from where this one stops, so no byte may wait in a buffer.
        file = FileIO(path)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path)) from error
    with file:
        yield _measured(path, file)


def _measured(path: str, file: FileIO) -> DataFile:
    found, size = hashlib.sha256(), 0
    try:
        while piece := file.read(_PIECE):
            if not size:
                # A longer file is no text to packing, which looks at its length.
                packing.refuse_token(path, piece + file.read(1), "delete it from the data")
                file.seek(len(piece))
            found.update(piece)
            size += len(piece)
        file.seek(0)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path)) from error
    return DataFile(path, size, found.hexdigest(), file.fileno())
