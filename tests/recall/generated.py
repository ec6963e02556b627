"""Changes drawn from every key of a catalogue: a number out of range, zero, a negative one, a wrong type, a wrong word.

Nobody chose them by what lint knows. The list of a framework and version is the same each time it is made.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from postrender.values import catalogue
from tests.recall.cases import UNKNOWN, Case

COUNT, SEED = 520, 22
BASE = {"nemo-rl": "two-nodes", "verl": "verl"}
# What replaces a value of a type. A text may be a wrong word, a list or a map; a number zero, negative, huge.
WRONG: dict[str, tuple[Any, ...]] = {
    "integer": (0, -1, 10**9, "many", 0.5, [1]),
    "number": (0, -1, 10**6, "high", [0.1]),
    "boolean": ("maybe", 2, [True], {}),
    "string": ("zork", "", 7, ["zork"], {"zork": 1}),
    "list": (7, "zork", {"zork": 1}, []),
    "map": (7, "zork", ["zork"]),
}


def cases(framework: str, version: str) -> Iterator[Case]:
    """Yield the changes of a version."""
    chance = random.Random(SEED)  # noqa: S311 - a choice, no secret
    every = [(path, value) for path, kind in catalogue.load(framework, version).keys.items() for value in _wrong(kind)]
    for path, value in sorted(chance.sample(every, COUNT), key=str):
        # The judge runs the set-up alone: it does not see what fails on GPUs.
        yield Case("generated", BASE[framework], {path: value}, UNKNOWN, seen=False)


def _wrong(kind: str | list[str | None]) -> tuple[Any, ...]:
    if isinstance(kind, list):
        return ("zork", "", 7)
    known = [each for each in kind.split("|") if each in WRONG]
    return (*WRONG[known[0]], *((None,) if "null" not in kind else ())) if known else ()
