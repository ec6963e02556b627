"""Find the checks, and run all of them on the evidence."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from grpo.live import collection, doctor
from grpo.live.doctor import namespace
from grpo.live.doctor.check import FAILED, Check, Result, skipped
from grpo.live.evidence import Evidence


@cache
def checks() -> tuple[Check, ...]:
    """Return the checks of all modules of this package, sorted by id."""
    modules = [
        importlib.import_module(f"{doctor.__name__}.{each.name}") for each in pkgutil.iter_modules(doctor.__path__)
    ]
    found = {value.id: value for module in modules for value in vars(module).values() if isinstance(value, Check)}
    return tuple(found[each] for each in sorted(found))


def examine(evidence: Evidence) -> Iterator[tuple[Check, Result]]:
    """Yield what each check says; one whose evidence could not be read is not done."""
    said = namespace.absent(evidence)
    for check in checks():
        unread = [f"{kind}: {evidence.unread[kind]}" for kind in check.reads if kind in evidence.unread]
        if said and not unread and any(map(collection.in_namespace, check.reads)):
            unread = [said]
        results = [skipped("; ".join(unread))] if unread else check.run(evidence)
        yield from ((check, result) for result in results)


def is_healthy(results: list[tuple[Check, Result]]) -> bool:
    """Return whether nothing has failed."""
    return all(result.state != FAILED for _, result in results)
