"""The programs of jobs/ in a simulated process: their own code, with its os, its time, its threads and its signals."""

from __future__ import annotations

import builtins
import functools
import importlib
import io
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tests.programs import PROGRAMS, flat_folder

from .clock import Event, Thread, Timer
from .processes import Pipe, Process

# The number of the last pipe's reader, and that of the first pipe's writer: no real descriptor has them.
READER, FIRST = 1_000_000, 1_000_001
# The process identifier of what has started a launch.
PARENT = 1
# The date at which simulations begin, in seconds since 1970.
START = 1_800_000_000


@functools.cache
def compiled(path: str) -> CodeType:
    return compile(Path(path).read_text(encoding="utf-8"), path, "exec", dont_inherit=True)


class Beside:
    """A module of the standard library with some of its names replaced."""

    def __init__(self, module: ModuleType, **names: Any) -> None:
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Output:
    """What a child has printed and its parent has not read."""

    def __init__(self) -> None:
        self.data, self.closed = b"", False

    def fileno(self) -> Any:
        return self

    def take(self) -> bytes:
        taken, self.data = self.data, b""
        if not taken and not self.closed:
            raise BlockingIOError
        return taken


class Child:
    """subprocess.Popen of a simulated process."""

    def __init__(self, process: Process, pipes: tuple[Output | None, Output | None]) -> None:
        self.process, self.pid = process, process.pid
        self.stdout, self.stderr = pipes

    @property
    def returncode(self) -> int | None:
        return self.process.code

    def poll(self) -> int | None:
        self.process.is_reaped = not self.process.alive
        return self.process.code

    def kill(self) -> None:
        if self.process.alive:
            self.process.exit(-signal.SIGKILL)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Do not wait for it."""


class Programs:
    """The modules that one simulated process has imported."""

    def __init__(self, machine: Any, process: Process, arguments: list[str]) -> None:
        self.machine, self.process, self.loaded = machine, process, dict[str, Any]()
        self.standard = {
            "os": self.make_os(),
            "time": Beside(time, monotonic=self.now, sleep=process.clock.wait, gmtime=self.date),
            "threading": self.make_threading(),
            "signal": self.make_signal(),
            "select": Beside(select, select=self.select),
            "subprocess": Beside(subprocess, Popen=self.popen),
            "sys": Beside(sys, argv=arguments, stdin=io.StringIO()),
        }
        self.builtins = {**vars(builtins), "__import__": self.find, "print": process.print}

    def now(self) -> float:
        """Return the monotonic clock of this process's machine."""
        return self.process.clock.moment + self.process.offset

    def date(self) -> time.struct_time:
        """Return the date and time of the day in UTC."""
        return time.gmtime(START + self.process.clock.moment)

    def make_os(self) -> Beside:
        process, table = self.process, self.process.table

        def kill(pid: int, number: int) -> None:
            table.kill(pid, number, process.pid)

        return Beside(
            os,
            environ=process.environ,
            getpid=lambda: process.pid,
            getppid=lambda: process.parent.pid if process.parent else PARENT,
            chdir=os.listdir,
            listdir=self.machine.volume.guard(os.listdir, process),
            pipe=self.make_pipe,
            close=self.close,
            set_blocking=lambda *_: None,
            read=self.read,
            write=self.write,
            posix_spawn=self.spawn,
            execv=self.replace,
            waitpid=lambda pid, _options: table.wait(pid),
            kill=kill,
            killpg=lambda group, number: table.kill_group(group or process.group, number, process.pid),
            _exit=process.exit,
        )

    def make_pipe(self) -> tuple[int, int]:
        """Take the place of os.pipe; the reader's end is for a child."""
        self.process.pipes.append(Pipe(self.process.clock))
        return READER, FIRST + len(self.process.pipes) - 1

    def read(self, source: Any, size: int) -> bytes:
        """Take the place of os.read, for standard input and for the output of a child."""
        data: bytes = self.process.descriptors[source].read(size) if source == 0 else source.take()
        return data

    def write(self, number: int, data: bytes) -> int:
        """Take the place of os.write; files are real."""
        return self.process.pipes[number - FIRST].write(data) if number >= FIRST else os.write(number, data)

    def select(self, readers: list[int], _writers: Any, _errors: Any, timeout: float) -> tuple[list[int], Any, Any]:
        """Take the place of select.select with one reader."""
        return (readers if self.process.descriptors[readers[0]].wait(timeout) else []), [], []

    def close(self, number: int) -> None:
        """Take the place of os.close."""
        if number >= FIRST:
            self.process.pipes[number - FIRST].close()
        elif number in self.process.descriptors:
            self.process.descriptors[number].has_reader = False
        elif number != READER:
            os.close(number)

    def make_threading(self) -> Beside:
        clock, process = self.process.clock, self.process
        return Beside(
            threading,
            Event=functools.partial(Event, clock),
            Thread=functools.partial(Thread, clock, process),
            Timer=functools.partial(Timer, clock, process),
        )

    def make_signal(self) -> Beside:
        process = self.process

        def next_signal(signals: set[int], timeout: float) -> Any:
            assert timeout == 0
            found = next((each for each in process.pending if each.si_signo in signals), None)
            if found:
                process.pending.remove(found)
            return found

        def handle(number: int, handler: Any) -> None:
            process.handlers[number] = handler

        return Beside(
            signal,
            sigtimedwait=next_signal,
            sigpending=lambda: {each.si_signo for each in process.pending},
            pthread_sigmask=lambda _how, signals: process.blocked.update(signals) or set(),
            signal=handle,
        )

    def find(self, name: str, *rest: Any) -> Any:
        """Take the place of __import__."""
        if name in self.standard:
            return self.standard[name]
        if name in PROGRAMS:
            return self.load(name)
        if name in self.machine.libraries:
            return self.machine.libraries[name](self.process)
        return builtins.__import__(name, *rest)

    def load(self, name: str) -> Any:
        """Return a program of jobs/ as a module of this process."""
        if name not in self.loaded:
            # Dataclasses look for their module by its name.
            importlib.import_module(name)
            self.loaded[name] = found = ModuleType(name)
            self.execute(compiled(str(PROGRAMS[name])), found, str(flat_folder() / f"{name}.py"))
            self.machine.prepare(name, found, self.process)
        return self.loaded[name]

    def execute(self, code: CodeType, module: ModuleType, file: str) -> None:
        vars(module).update(__builtins__=self.builtins, __file__=file)
        exec(code, vars(module))  # noqa: S102  our own programs

    def main(self, code: CodeType, file: str) -> int:
        """Run a program as Python does; return its exit code."""
        return self.code_of(lambda: self.execute(code, ModuleType("__main__"), file))

    def code_of(self, function: Callable[[], int | None]) -> int:
        """Return what a function returns or exits with; print an exception as Python does."""
        try:
            return function() or 0
        except SystemExit as end:
            if isinstance(end.code, str):
                self.process.print(end.code, file=sys.stderr)
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            self.process.print(traceback.format_exc(), end="", file=sys.stderr)
            return 1

    def spawn(self, _path: str, words: list[str], environ: Any, **options: Any) -> int:
        """Take the place of os.posix_spawn."""
        process = self.process.table.add(self.process, environ, options["setpgroup"] or None)
        process.offset = self.process.offset
        if (os.POSIX_SPAWN_DUP2, READER, 0) in options["file_actions"]:
            process.descriptors[0] = self.process.pipes[-1]
        self.machine.execute(process, words)
        return process.pid

    def replace(self, _path: str, words: list[str]) -> None:
        """Take the place of os.execv: the code that calls it does not go on."""
        self.machine.execute(self.process, words)
        self.process.clock.hub.switch()

    def popen(self, words: list[Any], **options: Any) -> Child:
        """Take the place of subprocess.Popen."""
        group = None if options.get("start_new_session") else self.process.group
        process = self.process.table.add(self.process, options.get("env") or self.process.environ, group)
        process.offset = self.process.offset
        pipes = [Output() if options.get(name) == subprocess.PIPE else None for name in ("stdout", "stderr")]
        if options.get("stdout") is not None:
            process.readers.append(functools.partial(take, pipes))
        self.machine.execute(process, [str(word) for word in words], options.get("stdin"))
        return Child(process, (pipes[0], pipes[1]))


def take(pipes: list[Output | None], data: bytes, is_error: bool) -> None:
    """Keep output for the parent; without a pipe it is lost."""
    if pipe := pipes[is_error]:
        pipe.data += data


def shell(process: Process, script: str) -> int:
    """Run the few shell scripts of the tests: traps, sleep, echo and exit, separated by semicolons."""
    for command in script.split("; "):
        words = shlex.split(command)
        match words:
            case ["trap", "", "TERM"]:
                process.handlers[signal.SIGTERM] = signal.SIG_IGN
            case ["sleep", seconds]:
                process.clock.wait(float(seconds))
            case ["echo", *texts]:
                process.print(*texts)
            case ["exit", code]:
                return int(code)
            case _:
                raise AssertionError(f"the simulated shell does not know {command!r}")
    return 0
