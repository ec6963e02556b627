"""Split a job's output into lines, and strip what the program did not print: colours, process names, times."""

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
    """Split text that arrives in pieces into numbered lines; a carriage return does not increase the number."""

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
        """Yield the last line if it has no line end."""
        rest, self.rest = self.rest, ""
        if rest:
            yield self.number, rest


def words(line: str) -> str:
    """Return what the program itself printed: without colours, origin, leading progress bars and surrounding spaces."""
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    line = line[match.end() :] if (match := _ORIGIN.match(line)) else line
    if "%|" in line:
        line = _BAR.sub("", line)
    return line.strip()


def number(text: str) -> float | None:
    """Return a number as printed by Python and numpy: 1.5, nan, -inf, np.float64(0.2), True; None for anything else."""
    if text[-1:] == ")" and text.startswith(("np.", "numpy.")):
        text = text.partition("(")[2].rstrip(")")
    try:
        return float(text)
    except ValueError:
        return float(text == "True") if text in ("True", "False") else None
