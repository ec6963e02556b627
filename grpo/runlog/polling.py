"""Yield the numbered items of a growing folder, each once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

T = TypeVar("T")

PAUSE_SECONDS: Final = 5.0


def items(look: Callable[[], Mapping[int, T]], *, follow: bool) -> Iterator[list[tuple[int, T]]]:
    """Yield what `look` finds in numerical order; with `follow`, poll again and again.

    The item with the highest number may still be being written, so it is yielded once a second look finds it unchanged.
    """
    done: set[int] = set()
    before: Mapping[int, T] = {}
    while True:
        found = look()
        whole = [number for number in found if not follow or number < max(found) or found[number] == before.get(number)]
        new = sorted(number for number in whole if number not in done)
        done.update(new)
        yield [(number, found[number]) for number in new]
        if not follow:
            return
        before = found
        time.sleep(PAUSE_SECONDS)
