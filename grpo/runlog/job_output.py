"""Follow the output of a job that runs elsewhere: query its state, read, and resume where a connection was lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from postrender.errors import ClusterError, InputError

# Between two questions about a job that has not started, and before another try.
PAUSE_SECONDS: Final = 5.0
# A cluster that has not answered for so long ends the watch.
GIVE_UP_SECONDS: Final = 600.0


@dataclass(frozen=True)
class State:
    """A job's state, as its cluster reports it (`said`).

    `output` identifies the job's output file: empty if there is none, and a new text if the file starts over.
    `lost` says where else to find the output of a job that has ended.
    """

    output: str
    ended: bool
    said: str
    lost: str = ""


class Source(Protocol):
    """Where a job runs; `name` is the job's name in messages."""

    name: str

    def look(self) -> State:
        """Return the job's state; raise ClusterError if the cluster does not report it."""

    def read(self, state: State, start: int, *, wait: bool) -> Iterator[bytes]:
        """Yield the output from a byte offset on, and b"" while there is none; with `wait`, also new output.

        The iteration may end at any time. Raises ClusterError if the cluster cannot be read.
        """


def follow(
    source: Source,
    *,
    wait: bool,
    tell: Callable[[str], None],
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[bytes]:
    """Yield a job's output, with `wait` until it has ended, and b"" while there is none.

    `tell` receives messages for the user. Raises InputError if the job has not started, and ClusterError if
    the cluster does not answer the first request, or any later one for ten minutes.
    """
    output, position, said, heard = "", 0, "", None
    while True:
        try:
            state = source.look()
            if not state.output and not (state.ended and output):
                said = _not_there(source.name, state, wait=wait, said=said, tell=tell)
            else:
                position = position if state.output in ("", output) else 0
                output = state.output or output
                for piece in source.read(state, position, wait=wait and not state.ended) if state.output else ():
                    position, heard = position + len(piece), now()
                    yield piece
                if state.ended and wait:
                    tell(f"{source.name} has ended: {state.said}")
                if state.ended or not wait:
                    return
            heard, pausing = now(), 1.0 if state.output else PAUSE_SECONDS
        except ClusterError as error:
            if heard is None or not wait or now() - heard > GIVE_UP_SECONDS:
                raise
            if error.message != said:
                said = error.message
                tell(f"{said}; trying again")
            pausing = PAUSE_SECONDS
        yield b""
        pause(pausing)


def _not_there(name: str, state: State, *, wait: bool, said: str, tell: Callable[[str], None]) -> str:
    """Report once why there is no output yet; raise InputError if none can be expected."""
    if state.ended:
        raise InputError(f"{name} has ended, and its output is not there: {state.said}", fix=state.lost)
    if not wait:
        raise InputError(f"{name} has no output yet: {state.said}", fix="--follow waits for it")
    if state.said != said:
        tell(f"{name} has no output yet: {state.said}")
    return state.said
