"""Split the output of a job into lines, and take off what is not the program's: colours, names of processes, times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# No line that a reader wants is longer; more of one is dropped, so that a file without line ends needs no memory.
LONGEST: Final = 1 << 20
_COLOUR: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
# kubectl logs --prefix, kubectl logs --timestamps, and Ray: the process whose line it repeats.
_ORIGIN: Final = re.compile(
    r"\s*(?:\[pod/[^\]\s]+\]\s+)?(?:\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d)\s+)?(?:\((?=[^()]*\bpid=\d)[^()]*\)\s*)?"
)
# A progress bar does not end its line before something else is printed.
_BAR: Final = re.compile(r"^(?=[^\[]*\d%\|)[^\[]*\[[^\]]*\]\s*")


class Lines:
    """Cut text that comes in pieces into numbered lines; after a carriage return the number stays."""

    def __init__(self) -> None:
        self.number, self.rest = 1, ""

    def feed(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the lines that a piece completes."""
        whole = self.rest + text
        *lines, last = whole.split("\n")
        number = self.number
        self.number, self.rest = number + len(lines), last.rpartition("\r")[2][:LONGEST]
        for line in lines:
            if "\r" in line:
                yield from ((number, part[:LONGEST]) for part in line.split("\r"))
            else:
                yield number, line[:LONGEST]
            number += 1
        yield from ((number, part[:LONGEST]) for part in last.split("\r")[:-1])

    def end(self) -> Iterator[tuple[int, str]]:
        """Yield the last line if no line end follows it."""
        rest, self.rest = self.rest, ""
        if rest:
            yield self.number, rest


def words(line: str) -> str:
    """Return what the program itself printed: without colours, origin, a progress bar before it, and blanks around."""
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    line = line[match.end() :] if (match := _ORIGIN.match(line)) else line
    if "%|" in line:
        line = _BAR.sub("", line)
    return line.strip()


def number(text: str) -> float | None:
    """Return a number as Python and numpy print one: 1.5, nan, -inf, np.float64(0.2), True; None for anything else."""
    if text[-1:] == ")" and text.startswith(("np.", "numpy.")):
        text = text.partition("(")[2].rstrip(")")
    try:
        return float(text)
    except ValueError:
        return float(text == "True") if text in ("True", "False") else None
