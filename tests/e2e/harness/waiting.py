"""Waiting for something to become true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

Result = TypeVar("Result")


def until(
    probe: Callable[[], Result | Literal[False] | None],
    expected: str,
    seconds: float = 30,
    every: float = 0.2,
    seen: Callable[[], object] | None = None,
) -> Result:
    """Call `probe` until it returns something true, and return that.

    Raises AssertionError that says what was `expected` and what `seen()` reports instead.
    """
    deadline = time.monotonic() + seconds
    while True:
        result = probe()
        if result:
            return result
        if time.monotonic() > deadline:
            instead = f"; instead: {seen()}" if seen else ""
            raise AssertionError(f"expected within {seconds:g} s: {expected}{instead}")
        time.sleep(every)


def report(what: str, since: float) -> None:
    """Print how long it took; docs/howto/faults.md has these figures, and `pytest -rP` shows them."""
    print(f"{what} after {time.time() - since:.0f} s")
