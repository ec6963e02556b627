"""Check a run with the rules over values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.values.derived import mapping
from grpo.values.reference_errors import UnknownError
from postrender.finding import NewName
from postrender.judge import judge
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpo.values.config import RunConfig
    from postrender.finding import Finding
    from postrender.problem import Problem

# The rules that can check a configuration in which a section is not a map.
_OF_SECTIONS = ("/wrong-type", "/unknown-key", "/derived-key-differs", "/dangling-reference", "/section-not-judged")


def judge_run(run: RunConfig, rules: Iterable[Problem]) -> list[tuple[Problem, Finding]]:
    """Return the findings, those about sections first; they have keys but no location.

    A rule has no findings if it needs a value that only the running job knows.
    """
    chosen = [rule for rule in rules if applies(rule, run)]
    of_sections = [rule for rule in chosen if rule.id.endswith(_OF_SECTIONS)]
    found = _judged(run, of_sections)
    if run.is_whole() and not any(_is_misspelt_section(run, rule, finding) for rule, finding in found):
        found += _judged(run, (rule for rule in chosen if rule not in of_sections))
    # Otherwise any other rule would report a consequence of the wrong section.
    return found


def _judged(run: RunConfig, rules: Iterable[Problem]) -> list[tuple[Problem, Finding]]:
    return [(rule, finding) for rule in rules for finding in judge(run, [rule], silent=(UnknownError,))]


def _is_misspelt_section(run: RunConfig, rule: Problem, finding: Finding) -> bool:
    """Return whether a finding renames a section and is not accepted."""
    if rule.id in mapping(run.value("checks.ignore")):
        return False
    names = [key for key, value in finding.proposed.items() if isinstance(value, NewName)]
    return any(isinstance(value_at(run.given, key.split(".")), dict) for key in names)


def applies(rule: Problem, run: RunConfig) -> bool:
    """Return whether a rule applies to a run's framework and its version."""
    if rule.framework and rule.framework != run.framework:
        return False
    return (not rule.since or run.since(rule.since)) and not (rule.before and run.since(rule.before))
