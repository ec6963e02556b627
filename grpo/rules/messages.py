"""Which rules would have said an error with which a framework ends a run."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from grpo.rules import index
from postrender.problem import Problem
from postrender.yaml import reader

_FILE = os.path.join(os.path.dirname(__file__), "messages.yaml")


@cache
def table() -> dict[str, tuple[str, ...]]:
    """Return the words of errors in lower case, each with the ids of its rules."""
    (found,) = reader.load_all(Path(_FILE).read_text(encoding="utf-8"), _FILE)
    return {words.lower(): tuple(ids.split()) for words, ids in found.items()}


def rules_of(text: str) -> tuple[Problem, ...]:
    """Return the rules for the longest words that a text has."""
    lower = text.lower()
    words = max((each for each in table() if each in lower), key=len, default="")
    return tuple(rule for rule in index.rules() if rule.id in table().get(words, ()))
