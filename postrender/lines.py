"""Find the lines of a text by their numbers without cutting all of it."""

from __future__ import annotations

_OTHER_ENDS = tuple(each.encode() for each in ("\r", "\x85", "\u2028", "\u2029"))
# Line ends are counted in so many bytes at once.
_STEP = 64 * 1024


class Lines:
    """Hold a text of which lines are asked for by their numbers, from 1: mostly a few of very many."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        # A line that was found before, and where it begins: reports ask for one line after the other.
        self._known = 1, 0
        # Up to here nothing but a newline ends a line.
        self._plain = 0
        self._cut: list[str] | None = None

    def line(self, number: int) -> str:
        """Return a line without its end; empty where there is none."""
        if self._cut is None:
            start = self._start(number)
            end = self._data.find(b"\n", start) if start >= 0 else -1
            end = end if end >= 0 else len(self._data)
            if all(self._data.find(each, self._plain, end) < 0 for each in _OTHER_ENDS):
                self._plain = max(self._plain, end)
                return self._data[start:end].decode("utf-8", "replace") if start >= 0 else ""
            self._cut = self._data.decode("utf-8", "replace").splitlines()
        return self._cut[number - 1] if number <= len(self._cut) else ""

    def _start(self, number: int) -> int:
        """Return where a line begins, or -1 where there is none."""
        at, start = self._known if self._known[0] <= number else (1, 0)
        while at < number:
            found = self._data.count(b"\n", start, start + _STEP)
            if at + found < number:
                at, start = at + found, start + _STEP
                if start >= len(self._data):
                    return -1
            else:
                for _ in range(number - at):
                    start = self._data.find(b"\n", start) + 1
                at = number
        self._known = at, start
        return start
