"""Find the causes, and say which of them a line shows."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache

from postrender.live.why import causes as folder
from postrender.live.why.cause import Cause, Sign
from postrender.live.why.line import Line


class RegistryError(Exception):
    """Two causes have the same id."""


@cache
def causes() -> tuple[Cause, ...]:
    """Return the causes of all modules below `causes`, sorted by id; raise RegistryError for an id that is there twice.

    Causes stand in the modules as variables, or in tuples.
    """
    found: dict[str, Cause] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        for value in vars(importlib.import_module(f"{folder.__name__}.{module.name}")).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Cause) and found.setdefault(each.id, each) is not each:
                    raise RegistryError(f"two causes have the id {each.id}")
    return tuple(found[each] for each in sorted(found))


@cache
def _signs() -> tuple[tuple[Cause, Sign], ...]:
    return tuple((cause, sign) for cause in causes() for sign in cause.signs)


def cause_of(line: Line) -> Cause | None:
    """Return the cause that a line shows: the one whose sign asks for the most."""
    lower = line.text.lower()
    weights = [(sign.weight, cause.id, cause) for cause, sign in _signs() if sign.matches(line, lower)]
    return max(weights)[2] if weights else None


@cache
def trigger(more: tuple[str, ...] = ()) -> re.Pattern[bytes]:
    """Return a pattern that every line with a sign matches in lower case, and lines with one of `more` words.

    A key that contains another one is not needed. Grouped by first letter: it is tried at each letter of a log.
    """
    keys = sorted({sign.key for _, sign in _signs()} | set(more), key=len)
    needed: list[str] = []
    for key in keys:
        if not any(each in key for each in needed):
            needed.append(key)
    return re.compile(b"|".join(_group(letter, needed) for letter in sorted({key[0] for key in needed})))


def _group(letter: str, keys: Iterable[str]) -> bytes:
    rest = b"|".join(re.escape(key[1:].encode()) for key in keys if key[0] == letter)
    return re.escape(letter.encode()) + b"(?:" + rest + b")"
