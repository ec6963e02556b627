"""Read and write small files on a volume that several pods use at the same time."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import uuid
from pathlib import Path

from runtime import Record


def create_exclusively(path: Path, text: str) -> bool:
    """Create a file that must not exist; return False when another process created it first."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # Object-store mounts notice the second writer only when the file is flushed or closed, as ESTALE.
        if error.errno in (errno.EEXIST, errno.ESTALE):
            return False
        # A full disk leaves an empty file, which would look like another process's file.
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return True


def write_atomically(path: str | Path, text: str, suffix: str = "") -> None:
    """Write a file so that a reader sees the old or the new content, never a part of it.

    The suffix names the temporary file beside it; by default it is random.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{suffix or uuid.uuid4().hex[:8]}")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def write_in_place(path: Path, text: str) -> None:
    """Write over a file that exists, where there is no room for another one; a reader may see a part of it."""
    with path.open("r+", encoding="utf-8") as file:
        file.write(text)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def read_json(path: str) -> Record:
    """Return the JSON object in a file, or {} if there is no readable one."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: str, value: Record) -> None:
    """Write a JSON object to a file, and create the file's folder."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomically(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def gib(size: int) -> str:
    """Format a number of bytes as GiB."""
    return f"{size / 2**30:.1f} GiB"
