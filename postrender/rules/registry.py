"""Find the rules: every `Rule` in a module below the folder of its target."""

from __future__ import annotations

import importlib
import os
from functools import cache
from typing import TYPE_CHECKING

from postrender.rules.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


class RegistryError(Exception):
    """Two rules have the same id, or a rule is in the folder of another target."""


@cache
def rules(*folders: str) -> tuple[Rule, ...]:
    """Return the rules below folders such as "objects" or "values/verl", each folder's sorted by id.

    Raises RegistryError for two rules with the same id, and for a rule in the wrong folder.
    """
    found: dict[str, Rule] = {}
    for folder in folders:
        for rule in sorted(_below(folder), key=lambda each: each.id):
            if found.setdefault(rule.id, rule) is not rule:
                raise RegistryError(f"two rules have the id {rule.id}")
    return tuple(found.values())


def _below(folder: str) -> Iterator[Rule]:
    for module in _modules(folder):
        for rule in _rules_in(importlib.import_module(module)):
            if rule.target != folder.partition("/")[0]:
                raise RegistryError(f"{rule.id}, a rule over {rule.target}, is in the folder {folder}")
            yield rule


def _modules(folder: str) -> Iterator[str]:
    """Yield the names of the modules and packages below a folder."""
    here = os.path.dirname(__file__)
    for path, _, files in os.walk(os.path.join(here, folder)):
        for file in files:
            if file.endswith(".py"):
                name = os.path.relpath(os.path.join(path, file), here).removesuffix(".py").removesuffix("__init__")
                yield f"{__package__}.{name.rstrip(os.sep).replace(os.sep, '.')}"


def _rules_in(module: ModuleType) -> Iterator[Rule]:
    """Yield the rules among a module's variables, also in tuples and lists."""
    for value in vars(module).values():
        if isinstance(value, Rule):
            yield value
        elif isinstance(value, tuple | list):
            yield from (each for each in value if isinstance(each, Rule))
