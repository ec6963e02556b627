"""Run the trainer in its own process group, copy its output to the volume, and stop all its processes in time."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from exit_cause import MemoryKills
from fence import Fence
from owner import BEAT_SECONDS, GRACE_SECONDS, Owner
from runtime import NEVER, STOP_SIGNALS, now, say, wait_for_signal

# What outlives a trainer, and a log on a volume that hangs, hold up the end no longer than this.
PATIENCE_SECONDS = min(5.0, GRACE_SECONDS)
WATCHED = {*STOP_SIGNALS, signal.SIGCHLD}


class Watch:
    """What watches a trainer in addition to the run's owner; for a task other than training, it does nothing."""

    grace = 0.0  # seconds that a trainer has to save when it is stopped

    def begin(self, pid: int, group: int) -> None:
        """Start watching a trainer."""

    def hear(self, chunk: bytes) -> None:
        """Receive output, in another thread and without waiting."""

    def look(self, paused: bool) -> str:
        """Return why the trainer must be stopped, or an empty text; `paused` means that the volume does not answer."""
        del paused
        return ""

    def ended(self, code: int, stopped: bool, how: str) -> None:
        """Record the end of a trainer, and whether it was asked to stop from outside; `how` describes the end."""

    def should_restart(self) -> bool:
        """Return whether to restart a trainer that this watch has stopped; raise JobError to give up."""
        return False

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the watch."""


def forward_output(reader: int, output: int, chunks: queue.Queue[bytes], hear: Callable[[bytes], None]) -> None:
    """Copy a pipe to this program's own output, to a queue and to `hear`, until every process has closed the pipe."""
    while chunk := os.read(reader, 1 << 16):
        with contextlib.suppress(OSError):
            os.write(output, chunk)
        # If the volume hangs, the copy loses lines, but the trainer and this program continue.
        with contextlib.suppress(queue.Full):
            chunks.put_nowait(chunk)
        hear(chunk)


def keep_output(path: Path, chunks: queue.Queue[bytes]) -> None:
    try:
        with path.open("ab", buffering=0) as file:
            while chunk := chunks.get():
                file.write(chunk)
    except OSError as error:
        say(f"warning: cannot write {path}: {error.strerror}")


@contextlib.contextmanager
def copied(path: Path, hear: Callable[[bytes], None]) -> Iterator[None]:
    """Copy the output of this program and its trainer to a file on the volume, where it outlives the cluster.

    `hear` receives the same output.
    """
    reader, writer = os.pipe()
    kept, chunks = [os.dup(1), os.dup(2)], queue.Queue[bytes](256)
    forwarder = threading.Thread(target=forward_output, args=[reader, kept[0], chunks, hear], daemon=True)
    keeper = threading.Thread(target=keep_output, args=[path, chunks], daemon=True)
    forwarder.start()
    keeper.start()
    for number in (1, 2):
        os.dup2(writer, number)
    os.close(writer)
    try:
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
        # A process that has left the trainer's group may keep the pipe open. A bucket gets the file when it is closed.
        forwarder.join(PATIENCE_SECONDS)
        with contextlib.suppress(queue.Full):
            chunks.put(b"", timeout=PATIENCE_SECONDS)
        keeper.join(4 * PATIENCE_SECONDS)


class Trainer:
    """The trainer in its own process group, which ends with the trainer or with this program."""

    def __init__(self, words: list[str], mask: set[int]) -> None:
        self.fence = Fence()
        self.group = self.fence.group
        try:
            self.pid = os.posix_spawn(
                words[0],
                words,
                os.environ,
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
                setpgroup=self.group,
                setsigmask=mask,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError:
            self.fence.remove()
            raise

    def poll(self) -> int | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status)
        return None if pid == 0 else code if code >= 0 else 128 - code

    def forward(self, info: signal.struct_siginfo) -> None:
        # Ray itself signals every process of a job, and a second SIGTERM could interrupt a trainer that is saving.
        if info.si_pid != os.getppid() or "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:
            os.kill(self.pid, info.si_signo)

    def stop(self, reason: str, deadline: float, before: float) -> float:
        """Ask the trainer once to stop; return when to kill it."""
        say(f"{reason}; stopping the trainer")
        if before == NEVER:
            os.kill(self.pid, signal.SIGTERM)
        return min(before, deadline)

    def was_fenced(self) -> bool:
        """Return whether the fence has killed the trainer."""
        try:
            self.fence.move(now() + GRACE_SECONDS)
        except BrokenPipeError:
            return True
        return False

    def end(self, patience: float) -> None:
        """Kill the trainer's remaining processes, after `patience` seconds in which they may end by themselves."""
        self.fence.remove()
        deadline = now() + patience
        try:
            while now() < deadline:
                os.killpg(self.group, 0)
                time.sleep(0.05)
            os.killpg(self.group, signal.SIGKILL)
        except ProcessLookupError:
            pass


def supervise(words: list[str], owner: Owner, mask: set[int], watch: Watch) -> tuple[int, bool, bool]:
    """Run the trainer to its end; return its exit code, whether it was asked to stop, and whether the run was lost."""
    trainer, received, kill_at, lost = Trainer(words, mask), set[int](), NEVER, False
    kills = MemoryKills()
    say(f"the trainer runs as process {trainer.pid}: {shlex.join(words)}")
    owner.set_fence(trainer.fence)
    watch.begin(trainer.pid, trainer.group)
    while (code := trainer.poll()) is None:
        paused = owner.stall()
        if now() > kill_at:
            os.killpg(trainer.group, signal.SIGKILL)
            os.kill(trainer.pid, signal.SIGKILL)
        elif not lost and (reason := owner.trouble()):
            lost, kill_at = True, trainer.stop(reason, now() + GRACE_SECONDS, kill_at)
        elif kill_at == NEVER and not received and (reason := watch.look(paused)):
            kill_at = trainer.stop(reason, now() + watch.grace, kill_at)
        # Whether it has ended is asked right after the wait: nobody judges a trainer that is gone.
        info = wait_for_signal(WATCHED, BEAT_SECONDS / 5)
        if info and info.si_signo in STOP_SIGNALS and info.si_signo not in received:
            received.add(info.si_signo)
            trainer.forward(info)
            say(f"{signal.Signals(info.si_signo).name}: waiting until the trainer has ended")
    if kill_at == NEVER and code == 128 + signal.SIGKILL and trainer.was_fenced():
        lost = True
        say("this launcher was held up and could not prove that it owns the run: its fence has killed the trainer")
    trainer.end(PATIENCE_SECONDS if kill_at == NEVER else 0)
    how = f"the trainer ended with {kills.describe(code)}"
    say(how)
    watch.ended(code, bool(received) or lost, how)
    return code, bool(received), lost
