"""Run rules on their target; a rule that crashes becomes a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postrender.errors import GrpoError
from postrender.finding import NOWHERE, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from postrender.errors import Location
    from postrender.problem import Problem


def judge(
    given: Any,  # noqa: ANN401 (the type depends on the target of the rules)
    rules: Iterable[Problem],
    *,
    at: Location = NOWHERE,
    silent: tuple[type[Exception], ...] = (),
) -> list[Finding]:
    """Return the findings in rule order, with id, severity, why and fix filled in.

    `at` is the location of findings without one. A rule that raises one of the `silent` exceptions has no findings.
    Raises GrpoError if the input or the installation makes a check impossible.
    """
    return [finding for rule in rules for finding in _run(rule, given, at, silent)]


def _run(rule: Problem, given: Any, at: Location, silent: tuple[type[Exception], ...]) -> list[Finding]:  # noqa: ANN401
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
        each._replace(rule=rule.id, severity=rule.severity, why=each.why or rule.why, fix=each.fix or rule.fix)
        for each in found
    ]
