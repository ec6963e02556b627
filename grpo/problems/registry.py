"""Find the problems: every `Problem` in a module whose name gives the target."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Final

from grpo import problems
from postrender.problem import CHART, CLUSTER, FAILURE, LOG, OBJECTS, VALUES
from postrender.registry import GATE, RegistryError, collected, problems_of, rules_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from postrender.problem import Problem

# How the names of the modules begin whose problems have a target.
_NAMES: Final = {
    VALUES: "values",
    OBJECTS: "objects",
    CHART: "chart",
    LOG: "steps",
    FAILURE: "logs",
    CLUSTER: "probe",
}


@cache
def rules(*targets: str) -> tuple[Problem, ...]:
    """Return the problems of some targets, sorted by id within each target; only those targets' modules are imported.

    Raises RegistryError if two problems have the same id, or if a problem is in another target's module.
    """
    found = [each for target in targets for each in _of_target(target)]
    collected(found)
    return tuple(found)


@cache
def _of_target(target: str) -> tuple[Problem, ...]:
    found = [each for module in modules(target) for each in problems_of(module)]
    for each in found:
        if each.target != target:
            raise RegistryError(f"{each.id}, a problem of {each.target}, is in a module {_NAMES[target]}….py")
    return collected([*found, *(rules_in(GATE) if target == OBJECTS else ())])


def modules(target: str) -> Iterator[ModuleType]:
    """Yield the modules with a target's problems, sorted by name."""
    for package in pkgutil.iter_modules(problems.__path__, f"{problems.__name__}."):
        if package.ispkg:
            folder = importlib.import_module(package.name)
            for _, name, _ in pkgutil.iter_modules(folder.__path__):
                if name.partition("_")[0] == _NAMES[target]:
                    yield importlib.import_module(f"{package.name}.{name}")
