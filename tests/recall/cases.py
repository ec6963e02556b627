"""How the tables of mutations are written: a row is one fact, one stack, and values on both sides of its boundary."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What follows from a value by the facts. A silent mistake is one that no program refuses, and lint may.
ACCEPTED, REFUSED, SILENT, UNKNOWN = "accepted", "refused", "silent", "unknown"
Keys = Mapping[str, Any]
NEWEST = 3


@dataclasses.dataclass(frozen=True)
class Case:
    """One change: dotted keys of job.config, or of the values after `values:`, with their new values."""

    fact: str
    base: str
    keys: Keys
    expected: str
    seen: bool
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name the case by what it changes: two cases with one name would be the same case."""
        parts = (f"{path.removeprefix('values:')}={json.dumps(value)}" for path, value in self.keys.items())
        return f"{self.base}: {', '.join(parts)}"


@dataclasses.dataclass(frozen=True)
class Row:
    """One fact on one stack; `good`, `bad` and `silent` are values of the key, or maps of keys where `key` is empty.

    Versions are counted from the oldest. The fact holds from `since` to `until`; outside, what is bad is accepted. The
    keys exist from `exists` on, and before that no case is made. `seen` is false where the framework would say it only
    on GPUs, or while it trains. `arguments` are for the judge.
    """

    fact: str
    base: str
    key: str
    good: Sequence[Any] = ()
    bad: Sequence[Any] = ()
    silent: Sequence[Any] = ()
    extra: Keys = dataclasses.field(default_factory=dict)
    since: int = 0
    until: int = NEWEST
    exists: int = 0
    seen: bool = True
    arguments: tuple[str, ...] = ()

    def at(self, version: int) -> Iterator[Case]:
        """Yield the cases that make sense at a version."""
        if version < self.exists:
            return
        holds = self.since <= version <= self.until
        for values, expected in ((self.good, ACCEPTED), (self.bad, REFUSED), (self.silent, SILENT)):
            for value in values:
                keys = {**self.extra, **(value if not self.key else {self.key: value})}
                what = expected if holds or expected == SILENT else ACCEPTED
                yield Case(self.fact, self.base, keys, what, self.seen or what != REFUSED, self.arguments)
