"""Find the error of Python with which a program ended, in what it has printed."""

from __future__ import annotations

import re
from typing import Final

from log_lines import words

_TRACE: Final = "Traceback (most recent call last):"
_ERROR: Final = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:\([\w.]+\))?(?:: .*)?$")
LONGEST: Final = 300


def last_error(output: str) -> str:
    """Return the line that names the last error that nothing has caught, or an empty text."""
    _, trace, text = output.rpartition(_TRACE)
    found = [line for line in map(words, text.splitlines()) if _ERROR.match(line)] if trace else []
    return found[-1][:LONGEST] if found else ""
