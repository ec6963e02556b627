"""Find the causes, and say which of them a line shows."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache

from grpo.live.why import causes as folder
from grpo.live.why.cause import Cause, Sign
from grpo.live.why.line import Line


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
def _signs() -> dict[str, list[tuple[Cause, Sign]]]:
    """Return the signs by their keys."""
    found: dict[str, list[tuple[Cause, Sign]]] = {}
    for cause in causes():
        for sign in cause.signs:
            found.setdefault(sign.key, []).append((cause, sign))
    return found


def cause_of(line: Line) -> Cause | None:
    """Return the cause that a line shows: the one whose sign asks for the most; of two such, the nearer to the root."""
    lower = line.text.lower()
    near = {key for found in _finder().finditer(lower) for key in _within(found[1])}
    weights = [
        (sign.weight, -cause.place, cause.id, cause)
        for key in near
        for cause, sign in _signs()[key]
        if sign.matches(line, lower)
    ]
    return max(weights, key=lambda each: each[:3])[3] if weights else None


@cache
def _finder() -> re.Pattern[str]:
    """Return a pattern that finds the longest key at each letter of a line, also where keys overlap."""
    return re.compile(f"(?=({_either(_signs())}))")


@cache
def _within(key: str) -> tuple[str, ...]:
    """Return the keys with which a key begins, itself too."""
    return tuple(each for each in _signs() if key.startswith(each))


@cache
def trigger(more: tuple[str, ...] = ()) -> re.Pattern[bytes]:
    """Return a pattern that every line with a sign matches in lower case, and lines with one of `more` words."""
    needed: list[str] = []
    for key in sorted({*_signs(), *more}, key=len):
        # A line with a key has the shorter key within it too.
        if not any(each in key for each in needed):
            needed.append(key)
    return re.compile(_either(needed).encode())


def _either(keys: Iterable[str]) -> str:
    """Return a pattern for one of these texts, grouped by first letter: it is tried at each letter of a log."""
    groups: dict[str, list[str]] = {}
    for key in sorted(keys, key=lambda each: (-len(each), each)):
        groups.setdefault(key[0], []).append(re.escape(key[1:]))
    return "|".join(f"{re.escape(letter)}(?:{'|'.join(rest)})" for letter, rest in sorted(groups.items()))
