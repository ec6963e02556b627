"""Run a child process, print its output and read it line by line; used by the programs that start a framework."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import FrameType

from runtime import JobError

GRACE_SECONDS = 30
# Ray's workers colour their prefix; a progress bar moves the cursor.
ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Lines:
    """Split a stream of bytes into lines; a carriage return, as printed by progress bars, ends a line too."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> Iterator[str]:
        *done, self.rest = re.split(rb"[\r\n]", self.rest + chunk)
        for line in done:
            yield ANSI.sub("", line.decode("utf-8", "replace"))

    def end(self) -> Iterator[str]:
        yield from self.feed(b"\n" if self.rest else b"")


def stop(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def on_stop() -> None:
    """Raise an exception on SIGTERM, so that the child is stopped too."""
    signal.signal(signal.SIGTERM, stop)


@contextlib.contextmanager
def ended(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop the child if the block ends before the child does."""
    try:
        yield
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def run(words: list[str], folder: str, read: Callable[[str], None]) -> int:
    """Run a program in a folder; pass each line of its output to `read`, which may raise to stop the program.

    Return the program's exit code, 128 + n for signal n. stderr is not read.
    """
    # Python buffers its output when it writes to a pipe; the lines must arrive as they are printed.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    try:
        child = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    except OSError as error:
        raise JobError(f"cannot start {words[0]} in {folder}: {error.strerror}") from None
    lines, pipe = Lines(), child.stdout
    assert pipe is not None  # noqa: S101 - it was asked for
    with ended(child):
        while chunk := os.read(pipe.fileno(), 1 << 16):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            for line in lines.feed(chunk):
                read(line)
        for line in lines.end():
            read(line)
        code = child.wait()
    pipe.close()
    return code if code >= 0 else 128 - code
