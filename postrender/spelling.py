"""Find the name meant by a misspelt name, or by a natural guess (schemas/guesses.yaml)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache

from postrender import facts

# Names that are less alike than this are not suggested.
_ALIKE = 0.6
# Of several names that are alike, the only one that is this near is meant.
_NEAR = 0.8
# A slip leaves more alike than this.
_SLIP = 0.95
_SEPARATORS = re.compile(r"[-_]")


def plain(name: str) -> str:
    """Return a name without case and separators, which vary in spelling."""
    return _SEPARATORS.sub("", name).lower()


def near(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known names most similar to a misspelt one, the nearest first; empty if none is similar."""
    by_plain = {plain(each): each for each in known}
    if plain(name) in by_plain:
        return [by_plain[plain(name)]]
    return [by_plain[each] for each in difflib.get_close_matches(plain(name), by_plain, n=most, cutoff=_ALIKE)]


def meant(name: str, known: Iterable[str], *, is_value: bool = False) -> str:
    """Return the only name that a misspelt one can mean; an empty text if that is not certain.

    A value must be more similar than a key: somebody who writes fp16 does not mean bf16.
    """
    by_plain = {plain(each): each for each in known}
    if plain(name) in by_plain:
        return by_plain[plain(name)]
    for cutoff in (_NEAR,) if is_value else (_ALIKE, _NEAR):
        close = difflib.get_close_matches(plain(name), by_plain, n=2, cutoff=cutoff)
        if len(close) == 1:
            # Another number is another thing, such as another version.
            return by_plain[close[0]] if _digits(close[0]).startswith(_digits(name)) else ""
    return ""


def is_slip(name: str, known: str) -> bool:
    """Return whether a name differs from a known one only in case, separators, or a letter or two, but in no digit."""
    one, other = plain(name), plain(known)
    return _digits(one) == _digits(other) and difflib.SequenceMatcher(None, one, other).ratio() > _SLIP


def _digits(name: str) -> str:
    return "".join(filter(str.isdecimal, name))


def guess(key: str) -> str:
    """Return what to write instead of a wrongly guessed key, such as job.image: another key, or a sentence."""
    return _guesses().get(plain(key), "")


@cache
def _guesses() -> Mapping[str, str]:
    guesses: dict[str, str] = facts.load("guesses.json")
    return guesses


def elsewhere(framework: str, name: str) -> list[str]:
    """Return the framework's keys for what another framework calls by this name."""
    return _names(framework).get(plain(name), [])


@cache
def _names(framework: str) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = facts.load(f"catalogues/guesses/{framework}.json")
    return {plain(name): keys for name, keys in found.items()}
