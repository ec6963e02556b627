"""A table of processes: groups, signals, exit codes, and what each process prints."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from greenlet import getcurrent

from .clock import NEVER, Clock, Event, Task

IGNORED = {signal.SIGCHLD, signal.SIGCONT}
NOT_YET: int | None = None


class Pipe:
    """A pipe between two processes, whose reader waits in virtual time."""

    def __init__(self, clock: Clock) -> None:
        self.data, self.has_writer, self.has_reader, self.news = b"", True, True, Event(clock)

    def write(self, data: bytes) -> int:
        if not self.has_reader:
            raise BrokenPipeError
        self.data += data
        self.news.set()
        return len(data)

    def read(self, size: int) -> bytes:
        self.wait(None)
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def wait(self, timeout: float | None) -> bool:
        """Wait until there is something to read, or no writer any more; return whether there is."""
        while self.has_writer and not self.data:
            self.news.clear()
            if not self.news.wait(timeout):
                return False
        return True

    def close(self) -> None:
        """Close the writer's end."""
        self.has_writer = False
        self.news.set()


class Process:
    """A process: its tasks share one frozen flag, one set of pending signals and one exit code."""

    def __init__(self, table: Table, pid: int, group: int, parent: Process | None, environ: Mapping[str, str]) -> None:
        self.table, self.clock, self.pid, self.group, self.parent = table, table.clock, pid, group, parent
        self.environ, self.frozen, self.code = dict(environ), False, NOT_YET
        # Seconds by which its monotonic clock differs from that of the test: two machines have nothing in common.
        self.offset = 0.0
        self.pending: list[SimpleNamespace] = []
        self.blocked: set[int] = set()
        self.handlers: dict[int, Any] = {}
        self.readers: list[Callable[[bytes, bool], None]] = []
        self.output, self.is_reaped = b"", False
        self.started, self.ended = table.clock.moment, NEVER
        # The pipes that it has made, and those that it was given, by the number of the descriptor.
        self.pipes: list[Pipe] = []
        self.descriptors: dict[int, Pipe] = {}

    @property
    def alive(self) -> bool:
        return self.code is None

    def write(self, data: bytes, is_error: bool = False) -> None:
        """Print: to the readers of this process's pipes, or to those of the process that started it."""
        self.output += data
        for read in self.readers:
            read(data, is_error)
        if self.parent and not self.readers:
            self.parent.write(data, is_error)

    def print(self, *words: object, sep: str = " ", end: str = "\n", file: object = None, flush: bool = True) -> None:
        """Take the place of the function print."""
        del flush
        self.write((sep.join(map(str, words)) + end).encode(), file is not None)

    def start(self, function: Callable[[], Any]) -> Task:
        return self.clock.start(self, function)

    def exit(self, code: int) -> None:
        """End this process; its own task does not come back from here."""
        self.table.end(self, code)
        if is_of(self):
            self.clock.hub.switch()


def is_of(process: Process) -> bool:
    """Return whether the code that runs now is the process's own."""
    task = getcurrent()
    return isinstance(task, Task) and task.host is process


class Table:
    """The processes of all pods."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.numbers = clock, itertools.count(100)
        self.processes: dict[int, Process] = {}
        self.dead: list[Task] = []

    def add(self, parent: Process | None, environ: Mapping[str, str], group: int | None = None) -> Process:
        """Add a process that does nothing yet; without a group it leads its own."""
        pid = next(self.numbers)
        self.processes[pid] = Process(self, pid, group or pid, parent, environ)
        return self.processes[pid]

    def run(self, process: Process, main: Callable[[], int]) -> None:
        """Let a process run its main function, whose value is the exit code."""

        def work() -> None:
            process.exit(main())

        process.start(work)

    def wait(self, pid: int) -> tuple[int, int]:
        """Return the ended process and its status, as os.waitpid does with WNOHANG."""
        process = self.processes[pid]
        if process.code is None:
            return 0, 0
        process.is_reaped = True
        return pid, process.code << 8 if process.code >= 0 else -process.code

    def kill_group(self, group: int, number: int, sender: int = 0) -> None:
        members = [each for each in self.processes.values() if each.group == group and not each.is_reaped]
        if not members:
            raise ProcessLookupError(group)
        # Who sends it to its own group does not come back from its own end.
        for process in sorted(members, key=is_of):
            self.kill(process.pid, number, sender)

    def kill(self, pid: int, number: int, sender: int = 0) -> None:
        """Send a signal; 0 only asks whether there is such a process, living or not yet waited for."""
        process = self.processes[pid]
        if process.is_reaped:
            raise ProcessLookupError(pid)
        handler = process.handlers.get(number, signal.SIG_DFL)
        if number == 0 or not process.alive:
            return
        if number == signal.SIGKILL:
            process.exit(-number)
        elif number == signal.SIGSTOP:
            process.frozen = True
            if is_of(process):
                self.clock.wait(0)
        elif number == signal.SIGCONT:
            process.frozen = False
        elif number in process.blocked:
            if number not in [each.si_signo for each in process.pending]:
                process.pending.append(SimpleNamespace(si_signo=number, si_pid=sender))
        elif callable(handler):
            process.start(lambda: handler(number, None))
        elif handler == signal.SIG_DFL and number not in IGNORED:
            process.exit(-number)

    def end(self, process: Process, code: int) -> None:
        """Note the end of a process, and close its pipes."""
        process.code, process.ended = code, self.clock.moment
        for child in self.processes.values():
            # Nobody else waits for them.
            child.is_reaped = child.is_reaped or (child.parent is process and not child.alive)
        process.is_reaped = process.parent is None or not process.parent.alive
        # Their code must not run, not even what is in finally.
        self.dead += self.clock.forget(process)
        if process.parent and process.parent.alive:
            self.kill(process.parent.pid, signal.SIGCHLD)
        for pipe in process.pipes:
            pipe.close()
        for pipe in process.descriptors.values():
            pipe.has_reader = False
