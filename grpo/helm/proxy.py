"""Ask the API server through a `kubectl proxy`, which has the user's kubeconfig and logs in once.

It listens on a socket in a folder that only this user can enter, and ends with the block that has started it.
"""

# ruff: noqa: TID251 - this module may start programs

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final, NamedTuple

from grpo.deadline import Deadline
from grpo.helm import kubectl
from postrender import masking
from postrender.errors import ClusterError

# It asks nothing before it listens.
_START_SECONDS: Final = 30.0
# How long what it has written may take to come when it has ended.
_END_SECONDS: Final = 2.0
_LISTENS: Final = b"Starting to serve on"
# The address of a socket is short on all systems.
_LONGEST: Final = 90
# So much of the end of its stderr is kept.
_KEPT: Final = 16 << 10
# kubectl's own notes: one for each question that fails, of which the answer says the same.
_NOTE: Final = re.compile(r"(?m)^[EFIW]\d{4} [^\n]*")
_NOTE_BEGINS: Final = re.compile(r"[EFIW](\d{0,4}|\d{4} [^\n]*)")


class Answer(NamedTuple):
    """An answer: `kind` is the content type, an empty text if it has none."""

    status: int
    kind: str
    text: str


class _Connection(http.client.HTTPConnection):
    """A connection to a socket of this machine."""

    def __init__(self, path: str, seconds: float) -> None:
        # The only host that kubectl accepts.
        super().__init__("localhost", timeout=seconds)
        self._path, self._seconds = path, seconds

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._seconds)
        self.sock.connect(self._path)


class Proxy:
    """A proxy that runs; `process` is its id."""

    def __init__(self, path: str, process: int, errors: _Errors) -> None:
        self._path, self.process, self._errors = path, process, errors

    def ask(
        self, method: str, path: str, headers: dict[str, str], seconds: float, body: dict[str, Any] | None = None
    ) -> Answer:
        """Return the answer to a question; between two pieces of it may be so many seconds.

        Raises OSError and HTTPException.
        """
        with contextlib.closing(_Connection(self._path, seconds)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", errors="replace")
            kind = answer.headers.get_content_type() if "content-type" in answer.headers else ""
            return Answer(answer.status, kind, text)

    def logs_in(self) -> bool:
        """Return whether a credential program runs."""
        return has_child(self.process)

    def login_said(self) -> str:
        """Return in one line what a credential program that has failed has written, if it was not on the terminal."""
        return "" if self._errors.is_shown else self._errors.noted()


def has_child(process: int) -> bool:
    """Return whether a process has started another one that still runs; macOS has no /proc, and an image no pgrep."""
    with contextlib.suppress(OSError):
        return subprocess.run(["pgrep", "-P", str(process)], check=False, capture_output=True).returncode == 0
    return any(_parent(each) == process for each in Path("/proc").glob("[0-9]*/stat"))


def _parent(stat: Path) -> int:
    """Return the parent of a process of /proc, or 0 if it has ended; a name may have blanks and brackets in it."""
    with contextlib.suppress(OSError):
        return int(stat.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    return 0


class _Errors:
    """The stderr of kubectl: a login that asks a person for something is shown at once, if there is one."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.is_shown = sys.stderr.isatty()
        self._stream, self._kept, self._has_note = stream, "", threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def noted(self) -> str:
        """Return in one line what stands before the first note of kubectl, or what has come if there is none."""
        self._has_note.wait(_END_SECONDS)
        return " ".join(_NOTE.split(self._kept)[0].split())

    def wait(self) -> str:
        """Return the text when kubectl has ended."""
        self._thread.join(_END_SECONDS)
        return self._kept

    def _read(self) -> None:
        waiting = ""
        with self._stream:
            while data := os.read(self._stream.fileno(), _KEPT):
                text = data.decode("utf-8", "replace")
                self._kept = (self._kept + text)[-_KEPT:]
                if _NOTE.search(self._kept):
                    self._has_note.set()
                waiting = self._show(waiting + text)

    def _show(self, text: str) -> str:
        """Show what is no note of kubectl, also a prompt without the end of its line; return what may become one."""
        lines = text.splitlines(keepends=True)
        waiting = lines.pop() if _NOTE_BEGINS.fullmatch(lines[-1]) else ""
        shown = "".join(line for line in lines if not _NOTE.match(line))
        if self.is_shown and shown:
            sys.stderr.write(masking.text(shown))
            sys.stderr.flush()
        return waiting


@contextlib.contextmanager
def running(flags: Sequence[str]) -> Iterator[Proxy]:
    """Run a proxy with these options of kubectl, and stop it at the end of the block; raise ClusterError."""
    folder = tempfile.gettempdir()
    short = folder if len(folder) < _LONGEST else "/tmp"  # noqa: S108 (a folder of its own is made in it)
    with _signals_raise(), tempfile.TemporaryDirectory(prefix="grpo-", dir=short) as private:
        path = os.path.join(private, "kubectl")
        process = kubectl.begin(
            ["kubectl", "proxy", f"--unix-socket={path}", *flags],
            stdin=None if kubectl.has_person() else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=None if kubectl.has_person() else 0,
        )
        try:
            assert process.stderr  # noqa: S101 (a pipe, as below)
            errors = _Errors(process.stderr)
            _wait(process, errors)
            yield Proxy(path, process.pid, errors)
        finally:
            _stop(process)


def _wait(process: subprocess.Popen[bytes], errors: _Errors) -> None:
    """Wait until it listens; raise ClusterError if it ends, or does not listen in time."""
    assert process.stdout  # noqa: S101 (a pipe, as above)
    deadline, said = Deadline(_START_SECONDS), b""
    while _LISTENS not in said:
        if not select.select([process.stdout], [], [], deadline.left)[0]:
            fix = "kubectl proxy --unix-socket=FILE must work first"
            raise ClusterError(f"kubectl proxy does not listen within {deadline.seconds:.0f} s", fix=fix)
        if not (data := os.read(process.stdout.fileno(), _KEPT)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            raise kubectl.refused(kubectl.Outcome(1, "", errors.wait()), kubectl.LOOK)
        said += data


def _stop(process: subprocess.Popen[bytes]) -> None:
    kubectl.stop(process)
    process.wait()
    if process.stdout:
        process.stdout.close()


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Let a signal that would end this program at once raise SystemExit in the block."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    ours = [each for each in (signal.SIGTERM, signal.SIGHUP) if is_main and signal.getsignal(each) == signal.SIG_DFL]
    for each in ours:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
