"""Find the problems: every `Problem` in the modules of a package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Final

from postrender.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType


# The package of the rules that a stream must pass before grpo-post-render passes it on.
GATE: Final = "postrender.gate"


class RegistryError(Exception):
    """Two problems have the same id, or a problem is in another target's module."""


@cache
def rules_in(*packages: str) -> tuple[Problem, ...]:
    """Return the problems in all modules below packages such as "postrender.gate", sorted by id.

    Raises RegistryError if two problems have the same id.
    """
    modules = [module for package in packages for module in _modules(importlib.import_module(package))]
    return collected([each for module in modules for each in problems_of(module)])


def collected(found: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems without repetitions, sorted by id; raise RegistryError if two problems have the same id."""
    by_id: dict[str, Problem] = {}
    for each in found:
        if by_id.setdefault(each.id, each) is not each:
            raise RegistryError(f"two problems have the id {each.id}")
    return tuple(by_id[name] for name in sorted(by_id))


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    """Yield a module and, if it is a package, all modules below it."""
    yield module
    for _, name, is_package in pkgutil.iter_modules(getattr(module, "__path__", ())):
        child = importlib.import_module(f"{module.__name__}.{name}")
        if is_package:
            yield from _modules(child)
        else:
            yield child


def problems_of(module: ModuleType) -> Iterator[Problem]:
    """Yield the problems among a module's variables, including those in tuples and lists."""
    for value in vars(module).values():
        if isinstance(value, Problem):
            yield value
        elif isinstance(value, tuple | list):
            yield from (each for each in value if isinstance(each, Problem))
