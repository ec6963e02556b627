"""A volume that fails at one call of a program, or where the program or its node dies between two calls.

Calls are those that Python makes to files below one folder; a write counts when it reaches the operating system.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

READS = {"stat", "lstat", "listdir", "scandir", "readlink", "read"}
CHANGES = {"mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "symlink", "truncate", "open", "sendfile"}
CHANGES |= {"write", "fsync", "close", "utime"}
NEED_SPACE = CHANGES - {"rmdir", "unlink", "remove"}
# What happens at a call: an error instead of it, after it, instead of it and all that follow, a full disk from then on.
ERRORS = ("error", "late error", "dead", "full")
STOP = "stop"
# The simulation writes it, where in a job a thread does that may fail.
PLAYED = "output.log"


class Calls:
    """The calls of a program to files below a folder, while it is entered."""

    def __init__(self, root: Path, kind: str = "", at: int = 0) -> None:
        self.root, self.kind, self.at = str(root), kind, at
        self.count, self.busy, self.lock = 0, False, threading.RLock()
        self.before: Callable[[str, str], None] = lambda name, path: None
        self.after: Callable[[str, Any], None] = lambda name, path: None

    def path(self, given: Any, dir_fd: int | None = None) -> str:
        """Return the path of what a call is given: a path, or the number of an open file."""
        if isinstance(given, int):
            return self.real["readlink"](f"/proc/self/fd/{given}")
        path = os.fsdecode(given)
        return path if dir_fd is None else f"{self.path(dir_fd)}/{path}"

    def call(self, name: str, path: str, function: Callable[[], Any], part: Callable[[], Any] | None = None) -> Any:
        """Make a call, unless it is the one that fails; `part` is what a full disk still does of it."""
        with self.lock:
            if self.busy or path.endswith(PLAYED) or not f"{path}/".startswith(f"{self.root}/"):
                return function()
            self.busy = True
            try:
                self.before(name, path)
                self.count += 1
                here, beyond = self.count == self.at, 0 < self.at <= self.count
                if here and self.kind == STOP:
                    raise SystemExit(143)
                if (here and self.kind == "error") or (beyond and self.kind == "dead"):
                    raise OSError(errno.EIO, os.strerror(errno.EIO), path)
                if beyond and self.kind == "full" and name in NEED_SPACE:
                    if part:
                        part()
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
                made = function()
                self.after(name, path)
                if here and self.kind == "late error":
                    if hasattr(made, "close"):
                        made.close()
                    raise OSError(errno.EIO, os.strerror(errno.EIO), path)
                return made
            finally:
                self.busy = False

    def wrapped(self, name: str) -> Callable[..., Any]:
        function = getattr(os, name)

        def call(given: Any = ".", *rest: Any, **options: Any) -> Any:
            try:
                path = self.path(given, options.get("dir_fd"))
            except OSError:
                return function(given, *rest, **options)
            kind = name
            if name == "open" and not rest[0] & (os.O_WRONLY | os.O_RDWR):
                kind = "read"
            return self.call(kind, path, lambda: function(given, *rest, **options))

        return call

    def open(self, file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **options: Any) -> Any:
        """Take the place of open: the file that it returns makes its writes one by one."""
        real = self.real["builtin"]
        if isinstance(file, int) or not set(mode) & set("wxa+"):
            path = "" if isinstance(file, int) else os.fsdecode(file)
            return self.call("read", path, lambda: real(file, mode, buffering, *rest, **options))
        path = os.fsdecode(file)
        raw = self.call("open", path, lambda: File(self, path, mode.replace("b", "").replace("t", "")))
        if buffering == 0:
            return raw
        buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *rest, **options)

    def __enter__(self) -> Calls:
        self.real: dict[str, Any] = {"readlink": os.readlink, "builtin": builtins.open}
        self.stack = contextlib.ExitStack()
        for name in (READS | CHANGES) - {"read", "close"}:
            self.stack.enter_context(mock.patch.object(os, name, self.wrapped(name)))
        for module in (builtins, io):
            self.stack.enter_context(mock.patch.object(module, "open", self.open))
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()


class File(io.FileIO):
    """A file that asks before each write, and before it is closed."""

    def __init__(self, calls: Calls, path: str, mode: str) -> None:
        super().__init__(path, mode)
        self.calls, self.path = calls, path

    def write(self, data: Any) -> int:
        def half() -> None:
            super(File, self).write(bytes(data)[: len(data) // 2])

        written: int = self.calls.call("write", self.path, lambda: super(File, self).write(data), half)
        return written

    def close(self) -> None:
        if not self.closed:
            try:
                self.calls.call("close", self.path, lambda: None)
            finally:
                super().close()


class Crashes:
    """What a folder has on its disk just before each call that changes it, and at the end."""

    def __init__(self, root: Path, store: Path) -> None:
        self.root, self.store, self.states = root, store, list[tuple[str, Path, list[Path]]]()
        # Files whose content is on the disk for sure.
        self.synced = {path.stat().st_ino for path in files(root)}

    def before(self, name: str, path: str) -> None:
        if name in CHANGES:
            self.keep(f"before {name} of {path}")

    def after(self, name: str, path: str) -> None:
        if name in ("open", "fsync"):
            number = os.stat(path).st_ino
            self.synced = self.synced - {number} if name == "open" else self.synced | {number}

    def keep(self, when: str) -> None:
        copy = self.store / str(len(self.states))
        shutil.copytree(self.root, copy, symlinks=True)
        unsynced = [path.relative_to(self.root) for path in files(self.root) if path.stat().st_ino not in self.synced]
        self.states.append((when, copy, unsynced))

    def deaths(self) -> Iterator[tuple[str, Path, list[Path]]]:
        """Yield what happened, what a kill of the program leaves, and what the end of its node loses of that."""
        for when, copy, unsynced in self.states:
            yield f"program dies: {when}", copy, []
            if unsynced:
                yield f"node dies: {when}", copy, unsynced

    def each(self) -> Iterator[str]:
        """Put each state in place."""
        for what, copy, lost in self.deaths():
            put(copy, self.root, lost)
            yield what


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]


def put(copy: Path, root: Path, lost: Iterable[Path] = ()) -> None:
    """Make a folder what its copy is, but for the content of files that were lost."""
    shutil.rmtree(root)
    shutil.copytree(copy, root, symlinks=True)
    for path in lost:
        (root / path).write_bytes(b"")


def outcomes(
    root: Path, store: Path, run: Callable[[], object], kinds: tuple[str, ...], step: int = 1
) -> Iterator[str]:
    """Run a program with each fault, from the same beginning; yield what happened, with the folder as it is then.

    Errors come at every `step`-th call; deaths, which cost no run, at each.
    """
    start = store / "start"
    shutil.copytree(root, start, symlinks=True)
    crashes = Crashes(root, store)
    with Calls(root) as calls:
        calls.before, calls.after = crashes.before, crashes.after
        run()
    crashes.keep("at the end")
    yield from crashes.each()
    for kind in kinds:
        for at in range(1, calls.count + 1, step):
            put(start, root)
            with Calls(root, kind, at) as failing, contextlib.suppress(OSError, SystemExit):
                where = list[str]()
                failing.before = lambda name, path: where.append(f"{name} of {path}")  # noqa: B023
                run()
            yield f"{kind}: at call {at}, {where[at - 1] if at <= len(where) else 'not reached'}"
