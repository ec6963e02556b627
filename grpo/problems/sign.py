"""What reveals a problem in the lines of a run that has ended or no longer makes progress."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from grpo.problems.line import LOG, Line


@dataclass(frozen=True)
class Sign:
    """A line that reveals a problem: it contains `key`, matches `pattern`, and is of one of the `kinds`.

    `frames` must match a file or function of the traceback that ends with the line. `unless` must not match the line.
    All of them ignore case. Any other sign takes precedence over a `general` one.
    """

    key: str
    pattern: str = ""
    kinds: tuple[str, ...] = ()
    frames: str = ""
    unless: str = ""
    general: bool = False

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Return the compiled pattern; without a pattern, that of the key itself."""
        return re.compile(self.pattern or re.escape(self.key), re.IGNORECASE)

    @cached_property
    def exception(self) -> re.Pattern[str] | None:
        """Return the compiled pattern of `unless`; None if it is not set."""
        return re.compile(self.unless, re.IGNORECASE) if self.unless else None

    @property
    def weight(self) -> float:
        """Return how specific the sign is: a longer key or a place in the program makes it more so."""
        words = len(self.key) / 100 if self.general else max(len(self.key), _PATTERN if self.pattern else 0)
        return words + (_FRAMES if self.frames else 0)

    def matches(self, line: Line, lower: str) -> bool:
        """Return whether a line matches the sign; `lower` is the line's text in lower case."""
        at = lower.find(self.key)
        if at < 0 or (self.kinds and line.kind not in self.kinds):
            return False
        # The patterns would need long for a long line: the words of a message stand near each other.
        if not self.regex.search(line.text, at - _NEAR, at + _NEAR):
            return False
        if self.exception and self.exception.search(line.text, at - _NEAR, at + _NEAR):
            return False
        return not self.frames or any(
            re.search(self.frames, f"{each.file} {each.function}", re.IGNORECASE) for each in line.frames
        )


# A pattern, or a place in the program, tells as much as this many letters.
_PATTERN: Final = 12
_FRAMES: Final = 10
# So many characters before and after the words of a sign are looked at.
_NEAR: Final = 500


def says(*keys: str, **more: Any) -> tuple[Sign, ...]:  # noqa: ANN401 (the fields of a sign)
    """Return signs that differ only in their key."""
    return tuple(Sign(key, **more) for key in keys)


def printed(*keys: str, **more: Any) -> tuple[Sign, ...]:  # noqa: ANN401
    """Return signs that apply to logs only, because they have another meaning in the cluster's messages."""
    return says(*keys, kinds=(LOG,), **more)
