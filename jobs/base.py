"""What every part of the launcher needs: its voice, its clock, its two ways to give up, and writing files safely."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

Record = dict[str, Any]
STOPS = {signal.SIGTERM, signal.SIGINT}
NEVER, now = float("inf"), time.monotonic


class Refused(Exception):
    """The run cannot start or go on; the message says why and what to do."""


class Stopped(Exception):
    """SIGTERM or SIGINT arrived while no trainer was running."""


def say(text: str) -> None:
    print("grpo: " + text.encode("ascii", "backslashreplace").decode(), flush=True)


def pause(duration: float) -> None:
    """Wait, unless a signal that asks to stop has arrived or arrives."""
    if info := signal.sigtimedwait(STOPS, duration):
        raise Stopped(info.si_signo)


def create_once(path: Path, text: str) -> bool:
    """Create a file that must not exist; return False when somebody else was first."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # Object-store mounts notice the second writer when the file is flushed or closed, as ESTALE.
        if error.errno in (errno.EEXIST, errno.ESTALE):
            return False
        # A full disk leaves an empty file, which would be taken for somebody else's.
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return True


def replace(path: Path, text: str, suffix: str) -> None:
    """Write a file so that a reader sees the old content or the new content, never a part."""
    draft = path.with_name(f".{path.name}.{suffix}")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
