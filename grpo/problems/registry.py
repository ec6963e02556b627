"""Find the problems: every `Problem` in a module whose name says what it is found in."""

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
    """Return the problems of some targets, those of one target sorted by id; only their modules are imported.

    Raises RegistryError for two problems with the same id, and for a problem in a module of another target.
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
    """Yield the modules with the problems of a target, sorted by name."""
    for package in pkgutil.iter_modules(problems.__path__, f"{problems.__name__}."):
        if package.ispkg:
            folder = importlib.import_module(package.name)
            for _, name, _ in pkgutil.iter_modules(folder.__path__):
                if name.partition("_")[0] == _NAMES[target]:
                    yield importlib.import_module(f"{package.name}.{name}")
