"""Find the causes, and determine which of them a line shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from grpo.problems import registry
from grpo.problems.line import Line
from grpo.problems.sign import Sign
from postrender.problem import FAILURE, VALUES, Problem

# It stands for problems of values that share the words with which a framework ends the run.
_SHARED: Final = "known-to-lint"


@cache
def causes() -> tuple[Problem, ...]:
    """Return the problems that are visible only in a run's lines, sorted by id."""
    return registry.rules(FAILURE)


@cache
def _signs() -> dict[str, list[tuple[Problem, Sign]]]:
    """Return the signs by their keys."""
    found: dict[str, list[tuple[Problem, Sign]]] = {}
    shared = next(each for each in causes() if each.id == _SHARED)
    for key, problems in _refused().items():
        cause = problems[0] if len(problems) == 1 else shared
        found[key] = [(cause, sign) for sign in problems[0].logs if sign.key == key]
    for cause in causes():
        for sign in cause.logs:
            found.setdefault(sign.key, []).append((cause, sign))
    return found


@cache
def _refused() -> dict[str, list[Problem]]:
    """Return the problems of values by the words in the framework's error at startup."""
    found: dict[str, list[Problem]] = {}
    for problem in registry.rules(VALUES):
        for sign in problem.logs:
            found.setdefault(sign.key, []).append(problem)
    return found


def refused_values(line: Line) -> list[Problem]:
    """Return the problems of values whose error a line shows; if several match, those with the longest words."""
    lower = line.text.lower()
    shown = [sign.key for problems in _refused().values() for sign in problems[0].logs if sign.matches(line, lower)]
    return _refused().get(max(shown, key=len, default=""), [])


def cause_of(line: Line) -> Problem | None:
    """Return the cause that a line shows: the one with the most specific sign or, in a tie, the closest to the root."""
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
    """Return a pattern that finds the longest key at each position in a line, even if keys overlap."""
    return re.compile(f"(?=({_either(_signs())}))")


@cache
def _within(key: str) -> tuple[str, ...]:
    """Return the keys that are prefixes of a key, including the key itself."""
    return tuple(each for each in _signs() if key.startswith(each))


@cache
def trigger(more: tuple[str, ...] = ()) -> re.Pattern[bytes]:
    """Return a pattern that matches every lower-case line with a sign, and every line with one of the `more` words."""
    needed: list[str] = []
    for key in sorted({*_signs(), *more}, key=len):
        # A line with a key has the shorter key within it too.
        if not any(each in key for each in needed):
            needed.append(key)
    return re.compile(_either(needed).encode())


def _either(keys: Iterable[str]) -> str:
    """Return a pattern for any of these texts, grouped by first letter, because it is tried at each letter of a log."""
    groups: dict[str, list[str]] = {}
    for key in sorted(keys, key=lambda each: (-len(each), each)):
        groups.setdefault(key[0], []).append(re.escape(key[1:]))
    return "|".join(f"{re.escape(letter)}(?:{'|'.join(rest)})" for letter, rest in sorted(groups.items()))
