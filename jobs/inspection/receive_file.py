"""Write stdin to a file on a volume, either completely or not at all.

usage: receive_file.py MOUNT PATH SIZE SHA256 keep|replace ask|take
PATH: below MOUNT, the folder of the volume

Use ask first: a connection whose bytes nobody reads may not deliver the answer. With take, the bytes go to a file
next to it, which is renamed once its size and sha256 match the arguments. Each printed line is a status: "at N"
bytes, at least every few seconds; at the end "there" (it already existed), "absent" (to ask), "received", "refused
WHY" or "failed WHY". Nothing else is printed, and the exit code is 0, because any other exit code that the caller
gets is kubectl's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import BinaryIO

PIECE = 1 << 20
BEAT_SECONDS = 2.0  # seconds between two lines
SILENCE_SECONDS = 120.0  # seconds without a byte, after which nobody sends any more
LEFTOVER_SECONDS = 86400.0  # seconds after which a draft is of a pod that was killed


class RefusedError(Exception):
    """The file may not be written at this path."""


class FailedError(Exception):
    """The file did not arrive."""


class Beats(threading.Thread):
    """Report progress immediately and every few seconds, so that silence means a lost connection.

    It has its own thread, because a bucket may take minutes to close a file.
    """

    def __init__(self) -> None:
        """Create the thread without reporting anything yet."""
        super().__init__(daemon=True)
        self.done, self.ended = 0, threading.Event()

    def run(self) -> None:
        """Report how many bytes are done until the work has ended, or nobody is listening."""
        with contextlib.suppress(OSError):
            print("at", self.done, flush=True)
            while not self.ended.wait(BEAT_SECONDS):
                print("at", self.done, flush=True)

    def __enter__(self) -> Beats:
        """Start reporting."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reporting."""
        self.ended.set()
        self.join()


def digest(path: Path) -> str:
    """Return the sha256 of a file's content on the volume."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def place(mount: str, path: str) -> Path:
    """Return the file to write; raise RefusedError if it is not on the volume."""
    if not os.path.isdir(mount):
        raise RefusedError(f"this pod has no folder {mount}")
    file = Path(mount, path)
    root, folder = os.path.realpath(mount), os.path.realpath(file.parent)
    if os.path.commonpath((root, folder)) != root:
        raise RefusedError(f"{file.parent} is a link that leaves {mount}")
    return file


def is_there(file: Path, size: int, sha256: str, *, replace: bool) -> bool:
    """Return whether the file exists with this content; raise RefusedError if other content must be kept."""
    if not os.path.lexists(file):
        return False
    if file.is_symlink() or not file.is_file():
        raise RefusedError(f"{file} is no ordinary file")
    if file.stat().st_size == size and digest(file) == sha256:
        return True
    if not replace:
        raise RefusedError(f"{file} has another content")
    return False


def refuse_full(folder: Path, size: int) -> None:
    """Raise RefusedError if the volume reports too little free space; a bucket reports none."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if found.f_blocks and free < size:
        raise RefusedError(f"the volume has {free / 1e9:.1f} GB left, and the file has {size / 1e9:.1f} GB")


def copy(file: BinaryIO, size: int, beats: Beats) -> None:
    """Copy `size` bytes of stdin into a file, without waiting for EOF, which not every connection passes on."""
    count, heard = 0, time.monotonic()
    while count < size:
        ready, _, _ = select.select([0], [], [], BEAT_SECONDS)
        if not ready:
            if time.monotonic() - heard > SILENCE_SECONDS:
                raise FailedError(f"no byte came for {SILENCE_SECONDS:.0f} s, {count} of {size} bytes came")
            continue
        piece = os.read(0, min(PIECE, size - count))
        if not piece:
            raise FailedError(f"the connection ended, {count} of {size} bytes came")
        heard = time.monotonic()
        file.write(piece)
        beats.done = count = count + len(piece)
    file.flush()
    os.fsync(file.fileno())


def remove_leftovers(file: Path) -> None:
    """Delete drafts of this file that can no longer be in use."""
    for old in file.parent.glob(f".{file.name}.{'[0-9a-f]' * 8}.upload"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > LEFTOVER_SECONDS:
                old.unlink()


def ask(file: Path, size: int, sha256: str, *, replace: bool) -> str:
    """Check whether the file can be received; return the last line to print."""
    if is_there(file, size, sha256, replace=replace):
        return "there"
    file.parent.mkdir(parents=True, exist_ok=True)
    refuse_full(file.parent, size)
    return "absent"


def receive(file: Path, size: int, sha256: str, beats: Beats, *, replace: bool) -> str:
    """Receive the file from stdin; return the last line to print."""
    if (found := ask(file, size, sha256, replace=replace)) == "there":
        return found
    remove_leftovers(file)
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}.upload")
    try:
        with draft.open("xb") as target:
            copy(target, size, beats)
        # Read again: what counts is what lies on the volume.
        if draft.stat().st_size != size or digest(draft) != sha256:
            raise FailedError("other bytes came than were sent: their sha256 differs")
        # Another one may have sent a file of this name in the meantime.
        if is_there(file, size, sha256, replace=replace):
            return "there"
        if replace:
            with contextlib.suppress(OSError):
                draft.chmod(file.stat().st_mode)
            draft.replace(file)
            return "received"
        try:
            os.link(draft, file)
        except OSError:
            # Another one was faster still; or there are no links, as in a bucket.
            if is_there(file, size, sha256, replace=False):
                return "there"
            draft.replace(file)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return "received"


def main(words: list[str]) -> int:
    """Run the command described in the usage."""
    try:
        mount, path, size, sha256, mode, step = words
        with Beats() as beats:
            file, replace = place(mount, path), mode == "replace"
            if step == "ask":
                last = ask(file, int(size), sha256, replace=replace)
            else:
                last = receive(file, int(size), sha256, beats, replace=replace)
    except RefusedError as error:
        last = f"refused {error}"
    except FailedError as error:
        last = f"failed {error}"
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        last = f"failed {where}{error.strerror or error}"
    print(last, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
