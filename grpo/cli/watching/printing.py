"""Print the output of a job without its secrets, from its beginning or its last lines."""

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
    """A source that knows how long its output is without its last lines."""

    def before(self, lines: int) -> int:
        """Return how many bytes are before the last lines; raise ClusterError."""


class Tail:
    """The last lines of what another source has, and what is written after them."""

    def __init__(self, source: Measured, lines: int) -> None:
        """Ask nothing yet."""
        self.name, self._source, self._lines = source.name, source, lines
        self._skipped: dict[str, int] = {}

    def look(self) -> State:
        """Return the state of the other source."""
        return self._source.look()

    def read(self, state: State, start: int, *, wait: bool) -> Iterator[bytes]:
        """Yield the output from a byte on, counted from the first of the last lines."""
        if state.output not in self._skipped:
            # What begins anew while it is followed is new in whole.
            self._skipped[state.output] = 0 if self._skipped else self._source.before(self._lines)
        return self._source.read(state, self._skipped[state.output] + start, wait=wait)


def follow(source: Source, *, wait: bool) -> None:
    """Print the output of a job, with `wait` until it has ended; raise as job_output.follow does."""
    for text in masked(pieces.text(job_output.follow(source, wait=wait, tell=tell))):
        sys.stdout.write(text)
        sys.stdout.flush()


def tell(text: str) -> None:
    """Say something about the job on stderr."""
    sys.stderr.write(visible.lines([f"grpo: {masking.text(text)}"]))
    sys.stderr.flush()


def masked(found: Iterable[str]) -> Iterator[str]:
    """Yield whole lines with their secrets hidden; a piece may end within a secret, so a part of a line waits."""
    rest, stream = "", masking.Stream()
    for text in found:
        *whole, rest = _END.split(rest + text)
        if len(rest) > _LONGEST:
            whole, rest = [*whole, rest], ""
        if whole:
            yield stream.masked("".join(whole))
    yield stream.masked(rest)
