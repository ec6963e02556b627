"""A submitted job: its output in the head pod, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from grpo.cli.watching.head_pod import READ_SECONDS, heard
from grpo.deadline import Deadline
from grpo.helm import kubectl
from grpo.helm.kubectl import Head
from grpo.runlog import pieces
from grpo.runlog.job_output import State
from postrender import json_text
from postrender.errors import EXIT_CANNOT_RUN, EXIT_CLEAN, EXIT_FINDINGS, ClusterError, InputError

PROGRAM: Final = "ray_jobs"
_PENDING: Final = "PENDING"
_SUCCEEDED: Final = "SUCCEEDED"
_ENDED: Final = (_SUCCEEDED, "FAILED", "STOPPED")
# What a shell reports for a program that a signal has ended, beside its number.
_SIGNALLED: Final = 128


class Submitted:
    """A job on a cluster's head, identified by its id."""

    def __init__(self, job: str, head: Head) -> None:
        """Remember the job and the head; nothing is queried yet."""
        self.name = f"job {job}"
        self._id, self._head = job, head
        self._found: dict[str, Any] = {}

    def look(self) -> State:
        """Return the job's state from Ray; raise InputError if the job is unknown, and ClusterError on failure."""
        done = kubectl.run(PROGRAM, ["state", self._id], self._head, deadline=Deadline())
        if done.code == EXIT_FINDINGS:
            fix = "the output of a job goes with the head that it ran on"
            raise InputError(f"{self.name} is not there any more: {done.errors.strip()}", fix=fix)
        if done.code:
            raise ClusterError(done.errors.strip() or f"{PROGRAM} ended with exit code {done.code}")
        self._found = json_text.loads(done.output)
        status, message = str(self._found["status"]), str(self._found.get("message") or "").partition("\n")[0]
        said = status if status in (_SUCCEEDED, "RUNNING") else f"{status}: {message}"
        return State("" if status == _PENDING else self._id, status in _ENDED, said)

    def read(self, state: State, start: int, *, wait: bool) -> Iterator[bytes]:
        """Yield the output from a given byte on; with `wait`, until the job has ended, or for half a minute."""
        del state
        words = ["follow", self._id, str(start), str(READ_SECONDS if wait else 0)]
        with kubectl.running(PROGRAM, words, self._head) as descriptor:
            yield from heard(pieces.of_pipe(descriptor), f"the head of {self.name}")

    @property
    def exit_code(self) -> int:
        """Return the job's exit code as of the last `look`."""
        if self._found.get("status") == _SUCCEEDED:
            return EXIT_CLEAN
        code = self._found.get("driver_exit_code")
        if not isinstance(code, int) or not code:
            return EXIT_FINDINGS
        return code if code > 0 else _SIGNALLED - code


def reach(head: Head, deadline: Deadline) -> None:
    """Query Ray for a nonexistent job; raise ClusterError if the head does not answer in time.

    Sending an archive may take minutes, so a hanging head must be detected first.
    """
    done = kubectl.run(PROGRAM, ["state", "none"], head, deadline=deadline)
    if done.code == EXIT_CANNOT_RUN:
        raise ClusterError(done.errors.strip())


def send(request: str, archive: bytes, head: Head) -> None:
    """Submit a job with its package; raise InputError if Ray rejects it, and ClusterError on failure."""
    done = kubectl.run(PROGRAM, ["submit", request], head, archive)
    if done.code == EXIT_CANNOT_RUN:
        raise ClusterError(done.errors.strip())
    if done.code:
        raise InputError(
            f"the job was refused: {done.errors.strip()}", fix="grpo status shows the state of the cluster"
        )
