"""List the rules over values, objects, charts and logs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from postrender import registry
from postrender.problem import CHART, LOG, OBJECTS, VALUES
from postrender.registry import RegistryError

if TYPE_CHECKING:
    from postrender.problem import Problem

_PACKAGES: Final = {
    VALUES: ("grpo.rules.values",),
    OBJECTS: ("grpo.rules.objects", registry.GATE),
    CHART: ("grpo.rules.chart",),
    LOG: ("grpo.rules.log",),
}


@cache
def rules(*targets: str) -> tuple[Problem, ...]:
    """Return the rules over some targets, those of one target sorted by id.

    Raises RegistryError for two rules with the same id, and for a rule in the package of another target.
    """
    found: dict[str, Problem] = {}
    for target in targets:
        for rule in registry.rules_in(*_PACKAGES[target]):
            if rule.target != target:
                raise RegistryError(f"{rule.id}, a rule over {rule.target}, is in {' or '.join(_PACKAGES[target])}")
            if found.setdefault(rule.id, rule) is not rule:
                raise RegistryError(f"two rules have the id {rule.id}")
    return tuple(found.values())
