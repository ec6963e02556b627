"""Changes drawn from every key of a catalogue: a number out of range, zero, a negative one, a wrong type, a wrong word.

Nobody chose them by what lint knows. The list of a framework and version is the same each time it is made.
"""

from __future__ import annotations

import hashlib
from typing import Any

from grpo.values import catalogue
from tests.recall.cases import UNKNOWN, Case
from tests.recall.mutations import Mutation, of_case

COUNT = 520
NEWEST = {"nemo-rl": "v0.7.0", "verl": "0.9.1"}
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


def mutations(framework: str) -> list[Mutation]:
    """Return the changes of the newest version: those with the lowest digests, so a new key moves few of them."""
    version = NEWEST[framework]
    keys = catalogue.load(framework, version).keys
    every = [{path: value} for path, kind in keys.items() for value in _wrong(kind)]
    chosen = sorted(every, key=lambda change: hashlib.sha256(repr(change).encode()).digest())[:COUNT]
    # The judge runs the set-up alone: it does not see what fails on GPUs.
    cases = [Case("generated", BASE[framework], change, UNKNOWN, seen=False) for change in chosen]
    return [of_case(case, framework, version) for case in cases]


def _wrong(kind: str | list[str | None]) -> tuple[Any, ...]:
    if isinstance(kind, list):
        return ("zork", "", 7)
    known = [each for each in kind.split("|") if each in WRONG]
    return (*WRONG[known[0]], *((None,) if "null" not in kind else ())) if known else ()
