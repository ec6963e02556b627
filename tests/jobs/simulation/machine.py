"""A volume, a cluster's facts and launches on a machine in virtual time: hours of a run take milliseconds."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.jobs.harness import LAPSE, VERSION, Site

from .clock import Clock, Event
from .modules import PARENT, Programs, compiled, shell
from .processes import Process, Table

# Options of Python that make no difference here.
ISOLATED = ("-I", "-S")


class Volume:
    """What can be wrong with the volume of a run, for all pods or for one; the files are real."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        # By pod, None for all: the files for which a call hangs, and those for which it fails.
        self.hanging: dict[Process | None, set[str]] = {}
        self.errors: dict[Process | None, dict[str, OSError]] = {}
        self.answers = Event(clock)

    def hang(self, *names: str, pod: Process | None = None) -> None:
        """Let every call for a file of one of these names wait until the volume answers again."""
        self.hanging[pod] = set(names)

    def fail(self, name: str, number: int, pod: Process | None = None) -> None:
        """Let every call for a file of this name fail."""
        self.errors[pod] = {name: OSError(number, os.strerror(number))}

    def answer(self, pod: Process | None = None) -> None:
        """Let calls succeed again; those that wait are carried out now."""
        self.hanging.pop(pod, None)
        self.errors.pop(pod, None)
        self.answers.set()

    def guard(self, function: Callable[..., Any], pod: Process) -> Callable[..., Any]:
        """Return a function on a path that meets what is wrong with the volume first."""

        @functools.wraps(function)
        def call(path: Any, *rest: Any) -> Any:
            name = Path(path).name
            while any(name in self.hanging.get(each, ()) for each in (pod, None)):
                self.answers.clear()
                self.answers.wait()
            for each in (pod, None):
                if error := self.errors.get(each, {}).get(name):
                    raise error
            return function(path, *rest)

        return call


class Launch:
    """One simulated launch and what it printed."""

    def __init__(self, clock: Clock, process: Process) -> None:
        self.clock, self.process = clock, process

    @property
    def output(self) -> str:
        return self.process.output.decode()

    @property
    def last(self) -> str:
        return self.output.splitlines()[-1]

    def says(self, text: str) -> None:
        self.clock.run_until(lambda: text in self.output, f"output {text!r} in:\n{self.output}")

    def wait(self) -> int:
        """Let the machine run until the launch has ended; return its exit code."""
        self.clock.run_until(self.ended, f"the end of the launch, after:\n{self.output}")
        assert self.process.code is not None
        return self.process.code

    def ended(self) -> bool:
        return not self.process.alive

    def signal(self, number: signal.Signals) -> None:
        """Send a signal as Ray does, whose job supervisor is the parent of the launch."""
        self.process.table.kill(self.process.pid, number, PARENT)


class Machine(Site):
    """Pods with launchers, trainers and a volume that they share."""

    def __post_init__(self) -> None:
        self.lapse = LAPSE
        super().__post_init__()
        self.clock = Clock()
        self.table, self.volume = Table(self.clock), Volume(self.clock)
        self.evidence_seconds, self.libraries = 0.5, dict[str, Any]()
        self.plans: dict[int, dict[str, Any]] = {}

    def start_plan(self, plan: dict[str, Any], version: str = VERSION, body: str = "", **environment: str) -> Any:
        """Start a launcher in a pod of its own."""
        assert not body, "only a real launch runs the shell of an entrypoint"
        process = self.table.add(None, {**self.environment, **environment})
        process.offset = 1000.0 * process.pid
        self.plans[process.pid] = copy.deepcopy(plan)
        programs = Programs(self, process, ["launch", version])
        self.table.run(process, lambda: programs.code_of(lambda: int(programs.load("launch").main())))
        launch = Launch(self.clock, process)
        self.launches.append(launch)
        return launch

    def program(self, name: str) -> Any:
        """Return a program in a process of its own, for what one call can show."""
        process = self.table.add(None, self.environment)
        process.offset = 1000.0 * process.pid
        return Programs(self, process, [name]).load(name)

    def start_task(self, function: Callable[[], Any]) -> None:
        """Let a function run beside the others."""
        self.clock.start(self.table.add(None, {}), function)

    def lines(self) -> Iterator[tuple[str, int, str, float]]:
        """Yield what the trainers wrote, with the times of the test's clock."""
        for name, pid, word, moment in super().lines():
            yield name, pid, word, moment - self.table.processes[pid].offset

    def until(self, condition: Callable[[], object], what: str) -> None:
        self.clock.run_until(condition, what)

    def sleep(self, seconds: float) -> None:
        self.clock.wait(seconds)

    def now(self) -> float:
        return self.clock.moment

    def kill(self, pid: int, number: signal.Signals) -> None:
        self.table.kill(pid, number)

    def prepare(self, name: str, program: ModuleType, process: Process) -> None:
        """Change what a program asks of the world outside of its process."""
        calls = {"files": ("create_exclusively", "write_atomically", "write_in_place"), "owner": ("read_record",)}
        for call in calls.get(name, ()):
            setattr(program, call, self.volume.guard(getattr(program, call), process))
        if name == "launch":
            program.read_plan = lambda: self.plans[process.pid]
            program.copied = functools.partial(copied, process)

    def execute(self, process: Process, words: list[str], stdin: Any = None) -> None:
        """Let a process run a command of the tests."""
        program, *arguments = (word for word in words if word not in ISOLATED)
        name = Path(program).name
        if name == "sleep":
            self.table.run(process, lambda: shell(process, " ".join(["sleep", *arguments])))
        elif name == "sh":
            self.table.run(process, lambda: shell(process, arguments[1]))
        elif arguments[0] == "-c":
            code = compile(arguments[1], "<string>", "exec", dont_inherit=True)
            self.table.run(process, lambda: Programs(self, process, arguments[:1] + arguments[2:]).main(code, ""))
        elif arguments[0].endswith("/evidence.py"):
            request = json.load(stdin)
            self.table.run(process, lambda: self.collect(request))
        else:
            file = arguments[0]
            self.table.run(process, lambda: Programs(self, process, arguments).main(compiled(file), file))

    def collect(self, request: dict[str, Any]) -> int:
        """Take the place of the program that collects evidence."""
        folder = Path(request["folder"])
        try:
            folder.mkdir(parents=True)
        except OSError:
            return 1
        (folder / "reason.txt").write_text(f"{request['reason']}\n")
        (folder / "output.txt").write_text(request["output"])
        self.clock.wait(self.evidence_seconds)
        (folder / "complete.txt").write_text("all parts were asked for\n")
        return 0

    def living(self) -> list[Process]:
        """Return the processes that are left."""
        return [process for process in self.table.processes.values() if process.alive]

    def close(self) -> None:
        self.clock.close(self.table.dead)


@contextlib.contextmanager
def copied(process: Process, path: Path, hear: Callable[[bytes], None]) -> Iterator[None]:
    """Take the place of the threads that copy the output to the volume and to the guard."""

    with path.open("ab", buffering=0) as file:

        def read(data: bytes, is_error: bool) -> None:
            del is_error
            file.write(data)
            hear(data)

        process.readers.append(read)
        try:
            yield
        finally:
            process.readers.remove(read)
