"""Run a program of this package on this machine, with a time limit; the program may run the user's code."""

# ruff: noqa: TID251 - this module may start programs

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from postrender import masking

# So many bytes of the beginning and of the end of the output are kept.
KEPT: Final = 64 * 1024
_SET_CHILD_SUBREAPER: Final = 36
# A process that could not be found may hold the output open.
_PATIENCE: Final = 5.0


def run(
    program: str, arguments: Sequence[str], folder: str, seconds: float, environment: Mapping[str, str]
) -> int | None:
    """Run a Python program in a folder, with its output on stderr; return its exit code, or None if it timed out.

    All processes that it started end with it; on systems other than Linux, only those in its session. Secrets in the
    output are masked, and the middle of a long output is left out.
    """
    words = [sys.executable, "-B", program, *arguments]
    with (
        _Output() as output,
        _adopting(),
        subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output.pipe,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Adopt processes that lose their parents while the block runs, and kill all children started during it."""
    if sys.platform != "linux":
        yield
        return
    others = _children()
    adopt = ctypes.CDLL(None).prctl
    adopt(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        # The children of a killed process become ours, and are found next.
        while left := _children() - others:
            for pid in left:
                _kill(pid, others)
        adopt(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _kill(pid: int, others: set[int]) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except PermissionError:
        # A process of another user, which sudo or the like has started.
        others.add(pid)
    except (ProcessLookupError, ChildProcessError):
        pass


def _children() -> set[int]:
    """Return the processes whose parent is this one."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The name of the program, in brackets, may contain anything.
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    found.add(int(name))
    return found


class _Output:
    """A pipe that is read to its end; the beginning and the end of its content are kept and printed on stderr."""

    def __init__(self) -> None:
        self._head, self._tail, self._count = b"", b"", 0
        self._source, self.pipe = os.pipe()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.pipe)
        self._reader.join(_PATIENCE)
        sys.stderr.write(masking.text(self._text().decode("utf-8", "replace")))

    def _read(self) -> None:
        while data := os.read(self._source, KEPT):
            self._count += len(data)
            room = KEPT - len(self._head)
            self._head += data[:room]
            self._tail = (self._tail + data[room:])[-KEPT:]
        os.close(self._source)

    def _text(self) -> bytes:
        if self._count <= len(self._head) + len(self._tail):
            return self._head + self._tail
        # Whole lines: the mask does not know a part of a secret.
        head = self._head[: self._head.rfind(b"\n") + 1]
        tail = self._tail.partition(b"\n")[2]
        left_out = self._count - len(head) - len(tail)
        return head + f"grpo: {left_out} bytes of the output of the rewards are left out here\n".encode() + tail
