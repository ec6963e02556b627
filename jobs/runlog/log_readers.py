"""The readers for training output and tracker files, by format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from log_lines import Lines
from nemo_rl_log import NemoRl
from steps import Event, Reader, Step
from verl_log import Verl, VerlFile


class _OfLines(Protocol):
    def read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Event]: ...

    def end(self) -> Iterator[Event]: ...


class LogReader:
    """Read a log of unknown format: with several readers up to the first step, then with the one that found it."""

    def __init__(self, *readers: _OfLines) -> None:
        self.lines, self.readers = Lines(), list(readers)

    def feed(self, text: str) -> list[Event]:
        """Return the events completed by this piece."""
        return self._read(list(self.lines.feed(text)))

    def end(self) -> list[Event]:
        """Return the events completed by the end of the output."""
        events = self._read(list(self.lines.end()))
        return events + [event for reader in self.readers for event in reader.end()]

    def _read(self, lines: list[tuple[int, str]]) -> list[Event]:
        if len(self.readers) == 1:
            return list(self.readers[0].read(lines))
        events: list[Event] = []
        for line in lines:
            for reader in self.readers:
                found = list(reader.read([line]))
                events += found
                if any(isinstance(event, Step) for event in found):
                    self.readers = [reader]
        return events


# By job.framework; then what else a training leaves.
ANY: Final = "any"
VERL_FILE: Final = "verl-file"
_READERS: Final[dict[str, Callable[[], tuple[_OfLines, ...]]]] = {
    "nemo-rl": lambda: (NemoRl(),),
    "verl": lambda: (Verl(),),
    ANY: lambda: (NemoRl(), Verl()),
    VERL_FILE: lambda: (VerlFile(),),
}


def reader(form: str) -> Reader:
    """Return the reader for a framework's output (`nemo-rl`, `verl`, ANY of them), or for verl's logger `file`."""
    return LogReader(*_READERS[form]())
