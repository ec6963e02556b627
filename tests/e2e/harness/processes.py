"""Long-running programs: started with a log file each, stopped by process id in reverse order."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import leftovers


class Program:
    """One running program with everything that it has started."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str], cwd: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as stream:
            # A session of its own: a Ctrl-C in the terminal must not stop etcd before the API server.
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise RuntimeError with the end of the log when the program has ended."""
        code = self.process.poll()
        if code is not None:
            raise RuntimeError(f"{self.name} ended with code {code}:\n{self.tail()}")

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, grace: float = 8.0) -> None:
        """Send SIGTERM to the program, and SIGKILL after `grace` seconds to it and to all that it has started."""
        below = leftovers.descendants(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                below += leftovers.descendants(self.process.pid)
                self.process.kill()
        leftovers.kill_all(below, signal.SIGKILL)
        self.process.wait()


class Programs:
    """Long-running programs of one test cluster; `stop` ends the last one first."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self.running: list[Program] = []

    def start(self, name: str, command: Sequence[str | Path], **env: str) -> Program:
        """Start a program; `env` adds to this process' environment."""
        program = Program(name, command, self.logs / f"{name}.log", {**os.environ, **env}, self.logs)
        self.running.append(program)
        return program

    def end(self, program: Program, grace: float = 8.0) -> None:
        """Stop one of the programs now."""
        self.running.remove(program)
        program.stop(grace)

    def check(self) -> None:
        """Raise RuntimeError when one of the programs has ended."""
        for program in self.running:
            program.check()

    def stop(self) -> None:
        """Stop all in reverse order; etcd, which starts first, is stopped last: an API server hangs without it."""
        while self.running:
            program = self.running.pop()
            started = time.monotonic()
            program.stop()
            with (self.logs / "shutdown.log").open("a") as stream:
                stream.write(f"{program.name} stopped in {time.monotonic() - started:.1f} s\n")
