"""Write files: the only module that does, so that no user file is lost.

Each command has a mark: the bytes with which its output files begin. A file without the mark belongs to
somebody else, and is never replaced.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable
from typing import Final

from postrender.errors import OutputError, OutputRefusedError

# With this begins the name of a file that is not complete yet; a program that is killed may leave one.
DRAFT: Final = ".grpo-draft-"


def refuse(path: str, *, mark: bytes, inputs: Iterable[str] = ()) -> None:
    """Raise OutputRefusedError unless a file may be written at a user's path; OutputError if its folder is missing.

    An empty file, or a file with the mark, may be replaced. If no mark is given, no non-empty file may.
    """
    folder = os.path.dirname(path) or os.curdir
    if not os.path.isdir(folder):
        fix = "create it, or name another file"
        raise OutputError(f"{path}: cannot be written: there is no folder {folder}", fix=fix)
    try:
        why = _why_not(path, mark, inputs)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}", fix="name another file") from error
    if why:
        raise OutputRefusedError(f"{path}: {why}", fix="name another file")


def _why_not(path: str, mark: bytes, inputs: Iterable[str]) -> str:
    """Return why a file must not be replaced; raise FileNotFoundError if it does not exist."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "is a symbolic link"
    if not stat.S_ISREG(mode):
        return "is a folder" if stat.S_ISDIR(mode) else "is no ordinary file"
    if any(os.path.exists(each) and os.path.samefile(each, path) for each in inputs):
        return "is a file that is to be read"
    with open(path, "rb") as file:
        head = file.read(max(len(mark), 1))
    if not head or (mark and head == mark):
        return ""
    return "was not written by this command" if mark else "exists, and this command never overwrites a file"


def write(path: str, data: bytes, *, mark: bytes, inputs: Iterable[str] = ()) -> None:
    """Write a file atomically at a user's path; raise as `refuse` does, and OutputError if the write fails."""
    if not data.startswith(mark):
        raise ValueError(f"{path}: the content does not begin with its mark")
    refuse(path, mark=mark, inputs=inputs)
    try:
        replace(path, data)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}", fix="name another file") from error


def replace(path: str, data: bytes) -> None:
    """Write the program's own file atomically: a reader sees the old or the new content. Raises OSError on failure."""
    folder, name = os.path.split(path)
    # The process alone does not identify a draft: two containers may share the folder.
    draft = os.path.join(folder, f"{DRAFT}{secrets.token_hex(4)}-{name}"[:255])
    try:
        with open(draft, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(draft, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(draft, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)


def replace_if_changed(path: str, data: bytes) -> bool:
    """Write one of the program's own files if its content changed; return whether it was written."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if file.read() == data:
            return False
    replace(path, data)
    return True


def create(path: str, data: bytes) -> None:
    """Write a new file into a temporary folder."""
    with open(path, "xb") as file:
        file.write(data)
