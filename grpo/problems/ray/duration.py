"""Durations as Go writes them, such as `1h30m`."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_UNITS: Final = {
    **{"ns": 1, "us": 1000, "\u00b5s": 1000, "\u03bcs": 1000, "ms": 10**6, "s": 10**9},
    **{"m": 60 * 10**9, "h": 3600 * 10**9},
}
_PART: Final = re.compile(f"(?<![0-9.]){_NUMBER}({'|'.join(_UNITS)})")
_WHOLE: Final = re.compile(f"[-+]?(?:0|(?:{_NUMBER}(?:{'|'.join(_UNITS)}))+)\\Z")
# Python does not read numbers of any length.
_LONGEST: Final = 1000
# The largest duration of Go.
_MOST: Final = 2**63 - 1


def nanoseconds(text: str) -> int | None:
    """Return a duration in nanoseconds; None for a text that Go's time.ParseDuration rejects."""
    if len(text) > _LONGEST or not _WHOLE.match(text):
        return None
    parts = [(match[1].partition("."), _UNITS[match[2]]) for match in _PART.finditer(text)]
    length = sum(int(whole or 0) * unit + int(float(f"0.{rest or 0}") * unit) for (whole, _, rest), unit in parts)
    if length > _MOST:
        return None
    return -length if text.startswith("-") else length


def number(text: str) -> int | None:
    """Return an integer; None for a text that Go's strconv.Atoi rejects."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    found = int(text) if len(text) <= _LONGEST and digits.isascii() and digits.isdecimal() else None
    return found if found is not None and -_MOST - 1 <= found <= _MOST else None
