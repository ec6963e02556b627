"""List every id that a finding can have: for `grpo rules`, `--select`, reports and the pages."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from grpo.rules import registry
from grpo.rules.reading import READING
from postrender.errors import UsageError
from postrender.problem import CHART, LOG, OBJECTS, VALUES, Fails

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from postrender.problem import Problem

# The number of similar names to suggest.
_NEAR = 3


def rules() -> tuple[Problem, ...]:
    """Return every rule: those over values, then those over objects, charts and logs."""
    return registry.rules(VALUES, OBJECTS, CHART, LOG)


def everything() -> list[Problem]:
    """Return every id that a finding can have, with the checks that are not rules first."""
    return [*READING, *rules()]


def never_ignored() -> set[str]:
    """Return the ids that checks.ignore cannot accept: reading of values, what a chart enforces, what a log shows."""
    return {rule.id for rule in everything() if not rule.source or rule.fails == Fails.AT_RENDER or rule.target == LOG}


def find(words: Sequence[str], command: str, *, more: Iterable[str] = ()) -> list[Problem]:
    """Return the rules with these ids or domains; raise UsageError with similar names, also of `more`, for another."""
    listed = everything()
    for word in words:
        if not any(word in (each.id, each.domain) for each in listed):
            raise UsageError(f"{command}: nothing has the id or domain {word!r}", fix=_nearest(word, listed, more))
    return [each for each in listed if each.id in words or each.domain in words]


def _nearest(word: str, listed: Sequence[Problem], more: Iterable[str]) -> str:
    by_word = {name: name for name in more} | {each.id.partition("/")[2]: each.id for each in listed}
    by_word |= {name: name for each in listed for name in (each.domain, each.id)}
    matches = {rule for name, rule in by_word.items() if word and name.startswith(word)}
    shortest = sorted(matches, key=lambda each: (len(each), each))[:_NEAR]
    close = shortest or [by_word[name] for name in difflib.get_close_matches(word, by_word, n=_NEAR, cutoff=0.6)]
    return f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else "run grpo rules to list them"
