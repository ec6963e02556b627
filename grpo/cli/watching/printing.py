"""Print a job's output with secrets masked, either from the start or only the last lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from grpo.runlog import job_output, pieces
from grpo.runlog.job_output import Source, State
from postrender import masking, visible

# A progress bar ends its lines with a carriage return.
_END: Final = re.compile(r"(?<=[\r\n])")
# A longer line is not waited for.
_LONGEST: Final = 1 << 20


class Measured(Source, Protocol):
    """A source that knows the length of its output without the last lines."""

    def before(self, lines: int) -> int:
        """Return the number of bytes before the last lines; raise ClusterError if that cannot be determined."""


class Tail:
    """The last lines of another source, and whatever is written after them."""

    def __init__(self, source: Measured, lines: int) -> None:
        """Remember the source and the number of lines; nothing is queried yet."""
        self.name, self._source, self._lines = source.name, source, lines
        self._skipped: dict[str, int] = {}

    def look(self) -> State:
        """Return the other source's state."""
        return self._source.look()

    def read(self, state: State, start: int, *, wait: bool) -> Iterator[bytes]:
        """Yield the output from a given byte on, counted from the start of the last lines."""
        if state.output not in self._skipped:
            # What begins anew while it is followed is new in whole.
            self._skipped[state.output] = 0 if self._skipped else self._source.before(self._lines)
        return self._source.read(state, self._skipped[state.output] + start, wait=wait)


def follow(source: Source, *, wait: bool) -> None:
    """Print a job's output, with `wait` until the job has ended; raise as job_output.follow does."""
    for text in masked(pieces.text(job_output.follow(source, wait=wait, tell=tell))):
        sys.stdout.write(text)
        sys.stdout.flush()


def tell(text: str) -> None:
    """Write a message about the job to stderr."""
    sys.stderr.write(visible.lines([f"grpo: {masking.text(text)}"]))
    sys.stderr.flush()


def masked(found: Iterable[str]) -> Iterator[str]:
    """Yield complete lines with secrets masked; hold back partial lines, because a piece may end within a secret."""
    rest, stream = "", masking.Stream()
    for text in found:
        *whole, rest = _END.split(rest + text)
        if len(rest) > _LONGEST:
            whole, rest = [*whole, rest], ""
        if whole:
            yield stream.masked("".join(whole))
    yield stream.masked(rest)
