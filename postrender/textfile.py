"""Read text files up to a size limit."""

from __future__ import annotations

import contextlib
import os
import stat

from postrender import paths
from postrender.errors import InputError, Location, UnreadableError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Names the folder of which alone files are read, where others write them: in CI, the checkout.
CHECKOUT = "GRPO_CHECKOUT"
MAX_BYTES = 8 * 1024 * 1024
# A pipe can be read only once, but a command reads its files several times: to check, to render, to show a line.
_streams: dict[str, bytes] = {}


def is_limited() -> bool:
    """Return whether GRPO_CHECKOUT limits which files can be read."""
    return bool(os.environ.get(CHECKOUT))


def refuse_outside(path: str) -> None:
    """Raise InputError if a file, or the target of a link in a folder, is outside the folder in GRPO_CHECKOUT.

    A pull request's author controls its links, and messages show lines of the files that were read. The package's own
    files may be read.
    """
    checkout = os.environ.get(CHECKOUT)
    if not checkout:
        return
    allowed = [os.path.realpath(root) for root in (checkout, paths.data_root())]
    seen, to_see = set[str](), [path]
    while to_see:
        place = to_see.pop()
        real = os.path.realpath(place)
        if not any(os.path.commonpath((real, root)) == root for root in allowed):
            fix = f"put the file into {checkout}; {CHECKOUT} lets grpo read nothing else"
            raise InputError("this is outside of the checkout", at=Location(place), fix=fix)
        # A linked folder may hold links of its own, and a link may lead to a folder that it is in.
        if real not in seen and os.path.isdir(real):
            seen.add(real)
            with contextlib.suppress(OSError):
                to_see += [each.path for each in os.scandir(place) if each.is_symlink() or each.is_dir()]


def read_bytes(path: str) -> bytes:
    """Read a file of at most MAX_BYTES; raise UnreadableError if it cannot be read, InputError if it is too large."""
    if path in _streams:
        return _streams[path]
    refuse_outside(path)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            # Allocating MAX_BYTES would take longer than reading a small file.
            data = file.read(min(status.st_size, MAX_BYTES) + 1)
            if len(data) > status.st_size:
                # A pipe does not report its size.
                data += file.read(MAX_BYTES + 1 - len(data))
    except FileNotFoundError as error:
        fix = "grpo reads local files only: download it first" if "://" in path else "check the path"
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
        raise InputError(f"larger than {limit} MiB, expected a values file", at=Location(path), fix="check the path")
    if not stat.S_ISREG(status.st_mode):
        _streams[path] = data
    return data


def keep(name: str, data: bytes) -> None:
    """Store a pipe's content, or a text that is not a file, under the name used in messages."""
    _streams[name] = data


def forget() -> None:
    """Forget all stored texts, so that a command reads the files' current content."""
    _streams.clear()


def is_stream(path: str) -> bool:
    """Return whether the file was a pipe, whose content only this module still has."""
    return path in _streams


def place(data: bytes, offset: int) -> tuple[int, int]:
    """Return a byte offset's line and column, from 1; columns count bytes, because the text may be undecodable."""
    return data.count(b"\n", 0, offset) + 1, offset - (data.rfind(b"\n", 0, offset) + 1) + 1


def check_text(data: bytes, file: str) -> None:
    """Raise InputError if bytes are not text: a NUL byte, invalid UTF-8, or a byte order mark inside the text."""
    nul = data.find(b"\0")
    if nul >= 0:
        raise InputError(
            "this is not a text file: it contains a NUL byte",
            at=Location(file, *place(data, nul)),
            fix="give a text file saved as UTF-8",
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
            "a byte order mark is inside the text: YAML readers treat it differently",
            at=Location(file, *place(data, mark)),
            fix="delete the invisible character U+FEFF",
        )
