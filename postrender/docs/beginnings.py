"""What the secrets of each shape begin with: to look for that costs far less than to compile and try all patterns."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping

_WORD = string.ascii_letters + string.digits + "_"
# Sets of characters of which a text is known to be made without a pattern.
SETS = {
    "[A-Za-z0-9]": _WORD.replace("_", ""),
    "[A-Za-z0-9_]": _WORD,
    "[A-Za-z0-9_-]": _WORD + "-",
    "[A-Za-z0-9-]": _WORD.replace("_", "-"),
    "[A-Z0-9]": string.ascii_uppercase + string.digits,
}
# What all matches begin with; texts of one length of which each match begins with one; whether a word must begin there;
# at least how many characters follow, and of which; None where that is not known.
Beginning = tuple[str, tuple[str, ...], bool, int, str | None]


def beginnings(tokens: Mapping[str, str]) -> dict[str, Beginning]:
    """Return the beginning of each shape by its name."""
    return {name: _beginning(pattern) for name, pattern in tokens.items()}


def groups(known: Mapping[str, Beginning]) -> dict[str, tuple[str, ...]]:
    """Return the shapes by a text that all their matches begin with, the same for as many as can have one."""
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(known, key=lambda each: len(known[each][0])):
        shared = known[name][0]
        begin = next(filter(shared.startswith, found), shared)
        found[begin] = (*found.get(begin, ()), name)
    return found


def has_alternatives(pattern: str) -> bool:
    """Say whether a pattern is several, with bars between them."""
    bare, count = re.sub(r"\\.|\[\^?\]?(\\.|[^]\\])*\]", "", pattern), 1
    while count:
        bare, count = re.subn(r"\([^()]*\)", "", bare)
    return "|" in bare


def _beginning(pattern: str) -> Beginning:
    shared, starts, rest = _starts(pattern.removeprefix("\\b"))
    name, _, count = rest.rstrip("}").rpartition("{")
    least = count.rstrip(",")
    is_known = name in SETS and least.isdecimal()
    return shared, starts, pattern.startswith("\\b"), int(least) if is_known else 0, SETS[name] if is_known else None


def _starts(pattern: str) -> tuple[str, tuple[str, ...], str]:
    """Return what all matches begin with, texts of one length of which each begins with one, and the rest."""
    at = 0
    while at < len(pattern) and (pattern[at] in _WORD or pattern[at] == "-"):
        at += 1
    shared, rest = pattern[:at], pattern[at:]
    inner, closed, behind = rest[1:].partition("]")
    if rest[:1] == "[" and closed and inner.isalpha() and behind[:1] not in ("{", "*", "+", "?"):
        # One letter of a few, as in gh[pousr]_.
        _, more, rest = _starts(behind)
        return shared, tuple(f"{shared}{letter}{each}" for letter in inner for each in more), rest
    if rest[:1] in ("{", "*", "+", "?", "|"):
        return shared[:-1], (shared[:-1],), ""
    return shared, (shared,), rest
