"""Time patterns on their worst texts: `[pattern, flags, is_bytes, mode, size]` a line in; what took how long out.

A program of its own, so that a pattern that does not end is ended by the limit of CPU time.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections import deque
from typing import Any, Final

from tests.patterns.worst import Worst

SIZE: Final = 100_000
# Seconds of CPU at this size. A linear pattern needs some milliseconds.
LIMIT: Final = 1.0
# A text is tried short first. What needs more than this there is tried in full: so much would be half of the limit
# if the time grew with the square of the size.
_SHORT: Final = SIZE // 10
_SUSPECT: Final = LIMIT / 200


def main() -> None:
    """Write what is tried before it is tried, then its time at the full size."""
    for number, line in enumerate(sys.stdin):
        pattern, flags, is_bytes, mode, size = json.loads(line)
        compiled = re.compile(pattern.encode("latin-1") if is_bytes else pattern, flags)
        for text in Worst(pattern, flags, is_bytes).texts():
            print(json.dumps([number, text]), flush=True)
            if size > _SHORT and _seconds(compiled, mode, text.of(_SHORT)) < _SUSPECT:
                continue
            seconds = _seconds(compiled, mode, text.of(size))
            print(json.dumps([number, text, seconds]), flush=True)
            if seconds > LIMIT:
                break


def _seconds(compiled: re.Pattern[Any], mode: str, text: str) -> float:
    """Return the CPU time of a pattern over a text; twice the limit ends the process."""
    subject: Any = text.encode("latin-1", "replace") if isinstance(compiled.pattern, bytes) else text
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    begin = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(begin + 2 * LIMIT) + 1, hard))
    if mode == "finditer":
        deque(compiled.finditer(subject), 0)
    else:
        getattr(compiled, mode)(subject)
    seconds = time.process_time() - begin
    # Making the texts of the next pattern is no fault of this one.
    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
    return seconds


if __name__ == "__main__":
    main()
