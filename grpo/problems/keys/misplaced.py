"""Find the key that a user probably meant by one that the framework does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender import spelling

if TYPE_CHECKING:
    from grpo.values.catalogue import Catalogue
    from grpo.values.config import RunConfig


def meant(path: str, run: RunConfig) -> tuple[list[str], str]:
    """Return what an unknown key may mean, and its new name if only one name can be meant."""
    known, name = run.catalogue, path.rpartition(".")[2]
    if of_others := [key for key in spelling.elsewhere(run.framework, name) if known.knows(key)]:
        return of_others, ""
    siblings = _siblings(path, known)
    elsewhere = _elsewhere(name, known)
    # The place with the most sections in common is the nearest one.
    most = max((_common(path, key) for key in elsewhere), default=0)
    nearest = [key for key in elsewhere if _common(path, key) == most]
    # A name that is right elsewhere is misplaced, and not misspelt for certain.
    new = "" if elsewhere else spelling.meant(name, siblings)
    return [*spelling.near(name, siblings), *nearest[:3]], new


def _elsewhere(name: str, known: Catalogue) -> list[str]:
    """Return the keys and sections with a given name; only those in the default configuration, if it has any.

    Others are valid too, such as the fields that a class inherits, but may have no effect.
    """
    named = [key for key in {**dict.fromkeys(known.keys), **dict.fromkeys(known.sections)} if _last(key) == name]
    return [key for key in named if known.ships(key)] or named


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _common(path: str, key: str) -> int:
    """Return how many sections two keys have in common."""
    pairs = zip(path.split("."), key.split("."), strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), len(path.split(".")))


def _siblings(path: str, catalogue: Catalogue) -> list[str]:
    """Return the names of the other keys in the same section."""
    parent = path.rpartition(".")[0]
    return [key.rpartition(".")[2] for key in catalogue.keys if key.rpartition(".")[0] == parent]
