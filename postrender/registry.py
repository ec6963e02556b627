"""Find the rules: every `Problem` in a module of a package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Final

from postrender.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


# The package of the rules that a stream must pass before grpo-post-render passes it on.
GATE: Final = "postrender.gate"


class RegistryError(Exception):
    """Two rules have the same id, or a rule is in the package of another target."""


@cache
def rules_in(*packages: str) -> tuple[Problem, ...]:
    """Return the rules of all modules below packages such as "postrender.gate", sorted by id.

    Raises RegistryError for two rules with the same id.
    """
    found: dict[str, Problem] = {}
    for package in packages:
        for module in _modules(importlib.import_module(package)):
            for rule in _rules_of(module):
                if found.setdefault(rule.id, rule) is not rule:
                    raise RegistryError(f"two rules have the id {rule.id}")
    return tuple(found[each] for each in sorted(found))


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    """Yield a module and, if it is a package, all modules below it."""
    yield module
    for _, name, is_package in pkgutil.iter_modules(getattr(module, "__path__", ())):
        child = importlib.import_module(f"{module.__name__}.{name}")
        if is_package:
            yield from _modules(child)
        else:
            yield child


def _rules_of(module: ModuleType) -> Iterator[Problem]:
    """Yield the rules among a module's variables, also in tuples and lists."""
    for value in vars(module).values():
        if isinstance(value, Problem):
            yield value
        elif isinstance(value, tuple | list):
            yield from (each for each in value if isinstance(each, Problem))
