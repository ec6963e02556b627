"""Check a run with the rules over values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender.rules.judge import judge
from postrender.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from postrender.finding import Finding
    from postrender.rules.rule import Rule
    from postrender.values.config import Effective

# The rules that can check a configuration in which a section is not a map.
_OF_SECTIONS = ("/wrong-type", "/unknown-key", "/derived-key-differs", "/dangling-reference", "/section-not-judged")


def judge_run(run: Effective, rules: Iterable[Rule]) -> list[tuple[Rule, Finding]]:
    """Return the findings in the order of the rules; they have keys but no location.

    A rule that needs a value that only the running job knows has no findings.
    """
    chosen = [rule for rule in rules if applies(rule, run)]
    if not run.is_whole():
        # Any other rule would report a consequence of the wrong section.
        chosen = [rule for rule in chosen if rule.id.endswith(_OF_SECTIONS)]
    return [(rule, finding) for rule in chosen for finding in judge(run, [rule], silent=(UnknownError,))]


def applies(rule: Rule, run: Effective) -> bool:
    """Return whether a rule holds for a run's framework and its version."""
    if rule.framework and rule.framework != run.framework:
        return False
    return (not rule.since or run.since(rule.since)) and not (rule.before and run.since(rule.before))
