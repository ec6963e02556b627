"""Show a person how far a long command is; a log gets nothing."""

from __future__ import annotations

import os
import sys
import time

_WIDTH = 30
# What is done sooner needs no bar, and none between its steps either.
_AFTER_SECONDS = 2.0
_BETWEEN_SECONDS = 0.1


class Progress:
    """A bar on stderr, from two seconds on, that goes when all is done; `what` says what is counted."""

    __slots__ = ("_next", "_shown", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = False
        seen = sys.stderr is not None and sys.stderr.isatty() and "CI" not in os.environ
        self._next = time.monotonic() + _AFTER_SECONDS if seen else float("inf")

    def step(self, done: int, of: int) -> None:
        """Tell that a part is done."""
        if done < of and time.monotonic() >= self._next:
            self._next = time.monotonic() + _BETWEEN_SECONDS
            self._shown = True
            bar = "#" * (_WIDTH * done // of)
            self._write(f"\r[{bar:<{_WIDTH}}] {100 * done // of:3} % of {of} {self._what}")
        elif done >= of:
            self.end()

    def end(self) -> None:
        """Take the bar away, if there is one."""
        if self._shown:
            self._shown = False
            self._write("\r\033[K")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
