"""Read a file as text of a sane size, or say in one sentence why not; write a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat

from postrender.errors import InputError, Location, UnreadableError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_BYTES = 8 * 1024 * 1024
# Pipes can be read once, and a command needs its files several times: to judge, to render, to show a line.
_streams: dict[str, bytes] = {}


def read_bytes(path: str) -> bytes:
    """Read a whole file of at most MAX_BYTES; raise UnreadableError or InputError that says what to do."""
    if path in _streams:
        return _streams[path]
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            # To make room for as much as may come takes longer than to read a small file.
            data = file.read(min(status.st_size, MAX_BYTES) + 1)
            if len(data) > status.st_size:
                # A pipe does not know how much will come.
                data += file.read(MAX_BYTES + 1 - len(data))
    except FileNotFoundError as error:
        fix = "grpo reads local files only: download it first" if "://" in path else "check the path after -f"
        raise UnreadableError("there is no such file", at=Location(path), fix=fix) from error
    except IsADirectoryError as error:
        raise UnreadableError(
            "this is a directory", at=Location(path), fix="name the files in it, each by itself"
        ) from error
    except PermissionError as error:
        raise UnreadableError("no permission to read it", at=Location(path), fix=f"chmod u+r {path}") from error
    except (OSError, ValueError) as error:
        raise UnreadableError(f"cannot be read: {error}", at=Location(path)) from error
    if len(data) > MAX_BYTES:
        limit = MAX_BYTES // (1024 * 1024)
        raise InputError(
            f"larger than {limit} MiB, expected a values file", at=Location(path), fix="check the path after -f"
        )
    if not stat.S_ISREG(status.st_mode):
        _streams[path] = data
    return data


def write_if_changed(path: str, data: bytes, temporary: str) -> bool:
    """Write a file whole or not at all, and only where it differs; say whether it was written.

    `temporary` is a path in the same folder; an interrupted run may leave it, and the next one replaces it.
    """
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if file.read() == data:
            return False
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    with open(temporary, "xb") as file:
        file.write(data)
    os.replace(temporary, path)
    return True


def keep(name: str, data: bytes) -> None:
    """Remember a text that no file holds, or not for a second reading, by the name that messages use for it."""
    _streams[name] = data


def is_stream(path: str) -> bool:
    """Say whether the file was a pipe, whose content only this module still has."""
    return path in _streams


def place(data: bytes, offset: int) -> tuple[int, int]:
    """Return line and column, from 1, of a byte offset; columns count bytes, as the text is not decodable."""
    return data.count(b"\n", 0, offset) + 1, offset - (data.rfind(b"\n", 0, offset) + 1) + 1


def check_text(data: bytes, file: str) -> None:
    """Raise InputError for bytes that are no text: binary, not UTF-8, two texts glued together."""
    nul = data.find(b"\0")
    if nul >= 0:
        raise InputError(
            "this is not a text file: it contains a NUL byte",
            at=Location(file, *place(data, nul)),
            fix="give a YAML file saved as UTF-8",
        )
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"this is not UTF-8: byte 0x{data[error.start]:02x}",
            at=Location(file, *place(data, error.start)),
            fix="save the file as UTF-8",
        ) from error
    mark = data.find(_BYTE_ORDER_MARK, 1)
    if mark >= 0:
        raise InputError(
            "a byte order mark stands inside the text: YAML readers disagree on what it means",
            at=Location(file, *place(data, mark)),
            fix="delete the invisible character U+FEFF",
        )
