"""Read a log of any length, keeping the lines that report trouble and noting where training resumed after them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final

from grpo.live.why import registry
from grpo.problems.line import PYTHON_ERROR, Frame, Line
from grpo.runlog.shared import LONGEST, words

# Of a longer log the middle is not read: a training that has printed so much since has survived what stands there.
FIRST: Final = 2 << 20
LAST: Final = 16 << 20
_PIECE: Final = 1 << 20
# A longer traceback has lost its first places.
_FRAMES: Final = 60
# A line that belongs to a traceback comes soon after its places, also when Ray mixes several processes.
_NEAR: Final = 400
_PROCESS: Final = re.compile(r"\(([^()]*\bpid=\d+[^()]*)\)")
# What torchrun, PyTorch and vLLM put before a line of a rank or of an engine.
_PREFIX: Final = re.compile(
    r"^(?:\[[\w-]*\d(?:\|\d+)?\]: ?|\d+: (?=\[)|\|\s+(?=\()|(?:ERROR|"
    r"CRITICAL) \d\d-\d\d [\d:]{8} \[[^\]]+\] )+\s*"
)
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d{1,18}), in (\S+)')
# What shows that everything before was survived: a step that begins (NeMo RL) or has ended (verl, Megatron, TRL), and a
# trainer that our launcher starts or that ends well.
_PROGRESS: Final = re.compile(
    r"(?<!=)={3,} step \d+/\d+ ={3,}|^step:\d+ - |\biteration\s+\d+/\s*\d+ \||^\{'(?:train_)?loss': |"
    r"^grpo: the trainer (?:runs as process|ended with exit code 0)",
    re.IGNORECASE,
)
_WORDS: Final = ('file "', "assert ", "== step ", "step:", "iteration ", "loss': ", "grpo: the trainer")

Trouble = Line | None


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file in pieces."""
    while piece := file.read(_PIECE):
        yield piece


def read(chunks: Iterable[bytes], source: str, *, say: Callable[[str], None] = lambda _: None) -> Iterator[Trouble]:
    """Yield the log lines that may show a cause, and None at each point where training resumed.

    `say` is called with a description of what was not read.
    """
    number = 0
    reader = _Reader(source)
    for block, skipped in _ends(chunks):
        if skipped:
            say(f"{source}: lines {number + 1} to {number + skipped} were not read, the log is too long")
            number += skipped
        yield from reader.lines(block, number)
        number += block.count(b"\n")


def _ends(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield complete lines in blocks from a log's start and end, each with the number of lines left out before it."""
    first, rest, size, skipped = 0, deque[bytes](), 0, 0
    for block in _whole(chunks):
        if first < FIRST:
            first += len(block)
            yield block, 0
            continue
        rest.append(block)
        size += len(block)
        while size > LAST:
            gone = rest.popleft()
            size -= len(gone)
            skipped += gone.count(b"\n")
    for block in rest:
        yield block, skipped
        skipped = 0


def _whole(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces that end at the end of a line; an overlong line is cut."""
    rest = b""
    for chunk in chunks:
        whole, end, last = (rest + chunk).rpartition(b"\n")
        rest = last
        if end:
            yield whole + end
        elif len(rest) > LONGEST:
            yield rest
            rest = b""
    if rest:
        yield rest


class _Reader:
    """Keeps track of traceback frames between the lines of a log."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.trigger = registry.trigger(_WORDS)
        self.places = deque[tuple[int, str, Frame]](maxlen=_FRAMES)
        self.asserted: dict[str, str] = {}

    def lines(self, block: bytes, before: int) -> Iterator[Trouble]:
        """Yield the trouble in a block whose first line has the number `before` + 1."""
        lower, number, counted, start = block.lower(), before + 1, 0, 0
        while found := self.trigger.search(lower, start):
            begin = block.rfind(b"\n", 0, found.start()) + 1
            end = block.find(b"\n", found.start())
            end = len(block) if end < 0 else end
            number += block.count(b"\n", counted, begin)
            counted, start = begin, end
            yield from self.line(block[begin : min(end, begin + LONGEST)].decode("utf-8", "replace"), number)

    def line(self, raw: str, number: int) -> Iterator[Trouble]:
        """Yield the trouble that a line reports; a progress bar writes several lines over each other."""
        text = _PREFIX.sub("", words(raw.rpartition("\r")[2] if "\r" in raw.rstrip("\r") else raw))
        process = found[1] if (found := _PROCESS.search(raw[:_NEAR])) else ""
        if self.places and self.places[-1][:2] == (number - 1, process):
            # The source of the place above: it may name an error that did not happen.
            self.asserted[process] = text.strip() if text.strip().startswith("assert ") else ""
            return
        if place := _FRAME.match(text):
            self.places.append((number, process, Frame(place[1], int(place[2]), place[3])))
        elif _PROGRESS.search(text):
            yield None
        else:
            frames = tuple(frame for at, who, frame in self.places if who == process and number - at < _NEAR)
            asserted = self.asserted.get(process, "") if frames and text.rstrip() == "AssertionError" else ""
            yield Line(text, self.source, order=number, process=process, frames=frames, asserted=asserted)
            if frames and PYTHON_ERROR.match(text):
                self.places.clear()
                self.asserted.clear()
