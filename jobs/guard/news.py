"""Distinguish a new line from one that a program repeats while it waits: for GPUs, a download, another process."""

from __future__ import annotations

import re
from typing import Final

from log_lines import Lines

# What differs each time though nothing happens: dates, times, durations, counts of tries, processes, identifiers.
_CHANGES: Final = re.compile(
    r"\d\d\d\d-\d\d-\d\d|\d?\d:\d\d(?::\d\d)?(?:[.,]\d+)?"
    r"|(?<!\d)(?:\d+(?:\.\d+)?\s?(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d)(?=\W|\d|$))+"
    r"|(?:attempt|retry|retries|try|tries)\W{0,3}\d+|repeated \d+x"
    r"|pid=\d+|ip=[\d.]+|0x[0-9a-f]+|\b(?=[0-9a-f-]{16})[0-9a-f]+(?:-[0-9a-f]+)+",
    re.IGNORECASE,
)
# A program with more different lines than these does not wait.
KEPT: Final = 10_000
# Lines that differ later than here only are not told apart: so many lines of any length would need much memory.
LONGEST: Final = 2_000


class News:
    """The lines that a trainer has printed since it started."""

    def __init__(self) -> None:
        self.lines, self.seen = Lines(), set[str]()

    def feed(self, text: str) -> bool:
        """Return whether any line completed by this piece of output is new."""
        new = {_CHANGES.sub("*", line.strip()[:LONGEST]) for _, line in self.lines.feed(text)} - self.seen - {""}
        if len(self.seen) + len(new) > KEPT:
            self.seen.clear()
        self.seen |= new
        return bool(new)
