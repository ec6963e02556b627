"""Ask rules about what they check; a rule that crashes is a finding itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postrender.errors import GrpoError
from postrender.finding import NOWHERE, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from postrender.errors import Location
    from postrender.rules.rule import Rule


def judge(
    given: Any,  # noqa: ANN401 (what the target of the rules is)
    rules: Iterable[Rule],
    *,
    at: Location = NOWHERE,
    silent: tuple[type[Exception], ...] = (),
) -> list[Finding]:
    """Return what the rules find, in the order of the rules, each finding completed with what its rule says.

    `at` is the place of a finding that has none of its own. A rule that ends with one of the `silent` exceptions finds
    nothing. Raises GrpoError where the user gave something, or the installation lacks something, without which no rule
    can judge.
    """
    return [finding for rule in rules for finding in _asked(rule, given, at, silent)]


def _asked(rule: Rule, given: Any, at: Location, silent: tuple[type[Exception], ...]) -> list[Finding]:  # noqa: ANN401
    try:
        verdict = rule.check(given)
        found = [Finding(verdict, at)] if isinstance(verdict, str) else list(verdict or ())
    except silent:
        return []
    except GrpoError:
        raise
    except Exception as error:
        found = [Finding(f"the rule crashed: {type(error).__name__}: {error}; please report it", at)]
    return [
        each._replace(rule=rule.id, severity=rule.severity, why=rule.why, fix=each.fix or rule.fix) for each in found
    ]
