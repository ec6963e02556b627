"""Try every pattern on its worst texts, and print the slowest: `python -m tests.patterns.run`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

from tests.patterns.found import REPOSITORY, Found
from tests.patterns.timed import LIMIT, SIZE


class Slow(NamedTuple):
    """The worst time of a pattern in one use, in seconds of CPU, and the text."""

    seconds: float
    place: str
    mode: str
    pattern: str
    text: list[str]


def find() -> tuple[list[Found], list[str]]:
    """Return all patterns, and the places of those that cannot be known."""
    done = _python("tests.patterns.found")
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    return [Found(**each) for each in read["found"]], read["unknown"]


def measure(patterns: list[Found]) -> list[Slow]:
    """Return the worst time of each pattern in each use."""
    waiting = [(each, mode, bound) for each in patterns for mode, bound in each.uses]
    result: list[Slow] = []
    while waiting:
        lines = [
            json.dumps([each.pattern, each.flags, each.is_bytes, mode, bound or SIZE]) for each, mode, bound in waiting
        ]
        done = _python("tests.patterns.timed", "\n".join(lines))
        worst: dict[int, tuple[float, Any]] = {}
        last: list[Any] = [0, ""]
        for line in done.stdout.splitlines():
            last = json.loads(line)
            if len(last) == 3:
                worst[last[0]] = max(worst.get(last[0], (0.0, [])), (last[2], last[1]))
        # A text that was begun and did not end.
        if done.returncode:
            assert done.returncode < 0 and len(last) == 2, done.stderr  # noqa: PT018
            worst[last[0]] = (float("inf"), last[1])
        for number, (seconds, text) in worst.items():
            found, mode, _ = waiting[number]
            result.append(Slow(seconds, found.place, mode, found.pattern, text))
        waiting = waiting[last[0] + 1 :] if done.returncode else []
    return sorted(result, reverse=True)


def _python(module: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", module]
    return subprocess.run(command, input=given, capture_output=True, text=True, cwd=REPOSITORY, check=False)


if __name__ == "__main__":
    known, unknown = find()
    slowest = measure(known)
    print(f"{len(known)} patterns, {sum(each.seconds > LIMIT for each in slowest)} slow; not known: {unknown}")
    for one in slowest[: int(sys.argv[1]) if sys.argv[1:] else 40]:
        print(f"{one.seconds:8.3f} {one.place} {one.mode}\n         {one.pattern[:150]!r}\n         {one.text}")
