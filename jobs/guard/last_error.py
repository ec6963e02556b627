"""Find the Python error with which a program ended, in the program's output."""

from __future__ import annotations

import re
from typing import Final

from log_lines import words

_TRACE: Final = "Traceback (most recent call last):"
_ERROR: Final = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:\([\w.]+\))?(?:: .*)?$")
# Python says so before an error that does not end the program.
_IGNORED: Final = "Exception ignored "
LONGEST: Final = 300


def last_error(output: str) -> str:
    """Return the line that names the last uncaught error, or an empty text.

    A long line is cut at a word boundary: a partial token would lack the shape by which later output masks it.
    """
    before, *traces = output.split(_TRACE)
    last = ""
    for trace in traces:
        # On the line before the traceback, or on the one above it.
        above = before.rsplit("\n", 3)[-3 if before.endswith("\n") else -2 : -1]
        if not any(_IGNORED in line for line in above):
            last = next((line for line in reversed([*map(words, trace.splitlines())]) if _ERROR.match(line)), last)
        before = trace
    return last if len(last) <= LONGEST else last[:LONGEST].rpartition(" ")[0]
