"""Find the checks, and run all of them on the evidence."""

from __future__ import annotations

from collections.abc import Iterator

from grpo.cluster.evidence import Evidence
from grpo.live import collection
from grpo.problems import registry
from grpo.problems.kubernetes import probe_namespace as namespace
from grpo.problems.probe import FAILED, Result, skipped
from postrender.problem import CLUSTER, Problem


def checks() -> tuple[Problem, ...]:
    """Return the checks for a cluster, sorted by id."""
    return registry.rules(CLUSTER)


def examine(evidence: Evidence) -> Iterator[tuple[Problem, Result]]:
    """Yield each check's results; a check whose evidence could not be read is reported as not done."""
    said = namespace.absent(evidence)
    for check in checks():
        unread = [f"{kind}: {evidence.unread[kind]}" for kind in check.reads if kind in evidence.unread]
        if said and not unread and any(map(collection.in_namespace, check.reads)):
            unread = [said]
        results = [skipped("; ".join(unread))] if unread else check.check(evidence)
        yield from ((check, result) for result in results)


def is_healthy(results: list[tuple[Problem, Result]]) -> bool:
    """Return whether no check has failed."""
    return all(result.state != FAILED for _, result in results)
