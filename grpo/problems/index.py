"""List every problem, for `grpo rules`, `grpo explain`, `--select`, reports and the pages."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from grpo.problems import registry
from grpo.problems.reading import READING
from postrender.errors import UsageError
from postrender.problem import CHART, CLUSTER, FAILURE, LOG, OBJECTS, VALUES, Fails

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.problem import Problem

# The number of similar names to suggest.
_NEAR = 3


def rules() -> tuple[Problem, ...]:
    """Return every rule: rules over values first, then those over objects, charts and logs."""
    return registry.rules(VALUES, OBJECTS, CHART, LOG)


def everything() -> list[Problem]:
    """Return every problem: problems of reading first, then the rules, then those of a failed run and of a cluster."""
    return [*READING, *rules(), *registry.rules(FAILURE, CLUSTER)]


def never_ignored() -> set[str]:
    """Return the ids that checks.ignore cannot accept: reading the values, what a chart enforces, what a log shows."""
    return {rule.id for rule in findable() if not rule.source or rule.fails == Fails.AT_RENDER or rule.target == LOG}


def findable() -> list[Problem]:
    """Return every problem that a finding can have, problems of reading first."""
    return [*READING, *rules()]


def find(words: Sequence[str], command: str, listed: Sequence[Problem]) -> list[Problem]:
    """Return the problems with these ids or domains; an id takes precedence over a domain of the same name.

    Raises UsageError, suggesting similar names, if a word matches nothing.
    """
    ids = {each.id for each in listed}
    for word in words:
        if not any(word in (each.id, each.domain) for each in listed):
            raise UsageError(f"{command}: nothing has the id or domain {word!r}", fix=_nearest(word, listed))
    domains = {word for word in words if word not in ids}
    return [each for each in listed if each.id in words or each.domain in domains]


def _nearest(word: str, listed: Sequence[Problem]) -> str:
    by_word = {each.id.partition("/")[2]: each.id for each in listed}
    by_word |= {name: name for each in listed for name in (each.domain, each.id)}
    matches = {rule for name, rule in by_word.items() if word and name.startswith(word)}
    shortest = sorted(matches, key=lambda each: (len(each), each))[:_NEAR]
    close = shortest or [by_word[name] for name in difflib.get_close_matches(word, by_word, n=_NEAR, cutoff=0.6)]
    return f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else "run grpo rules to list them"
