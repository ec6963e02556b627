"""Read and write small files on a volume that several pods use at the same time."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from runtime import Record


def write(path: Path, mode: str, text: str) -> None:
    with path.open(mode, encoding="utf-8") as file:
        file.write(text)
        if mode == "r+":
            file.truncate()
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def drafted(path: Path, text: str, suffix: str = "") -> Iterator[Path]:
    """Yield a new file with a text, next to a path; delete it after an error. Without a suffix its name is random.

    This way, a full disk or a killed process never leaves partial text at the path itself.
    """
    draft = path.with_name(f".{path.name}.{suffix or uuid.uuid4().hex[:8]}")
    try:
        write(draft, "w", text)
        yield draft
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def create_exclusively(path: Path, text: str) -> bool:
    """Create a file that must not exist; return False if another process created it first.

    The file is never deleted after an error, because it may be the other process's.
    """
    with drafted(path, text) as draft:
        error = None
        try:
            os.link(draft, path)
        except OSError as found:
            # A network file system may report an error for a link that it has made.
            error = None if draft.stat().st_nlink > 1 else found.errno
        with contextlib.suppress(OSError):
            draft.unlink()
    if error in (None, errno.EEXIST):
        return error is None
    try:
        # On object-store mounts, which have no links, a file appears whole when it is flushed or closed. Only then do
        # they notice a second writer, as ESTALE.
        write(path, "x", text)
    except OSError as found:
        if found.errno in (errno.EEXIST, errno.ESTALE):
            return False
        raise
    return True


def write_atomically(path: str | Path, text: str, suffix: str = "") -> None:
    """Write a file so that a reader sees either the old or the new content, never a part of it.

    The suffix names the temporary file next to it; by default it is random.
    """
    with drafted(Path(path), text, suffix) as draft:
        draft.replace(path)


def write_in_place(path: Path, text: str) -> None:
    """Overwrite an existing file when there is no room for a second one; a reader may see partial content."""
    write(path, "r+", text)


def sync(path: str | Path) -> None:
    """Wait until a file written by another program is on disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def fail(error: OSError) -> NoReturn:
    """Raise an error from os.walk, which would otherwise skip a folder that it cannot list."""
    raise error


def read_json(path: str) -> Record:
    """Return the JSON object in a file, or {} if the file is missing or unreadable."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: str, value: Record) -> None:
    """Write a JSON object to a file, creating the file's folder."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomically(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def gib(size: int) -> str:
    """Format a number of bytes as GiB."""
    return f"{size / 2**30:.1f} GiB"
