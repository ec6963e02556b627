"""The job finds its RayCluster by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.placement.target import clusters, expected_cluster, name_of
from postrender.finding import INFO, WARNING, Finding
from postrender.gate.manifests import Manifests
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SOURCE = "kuberay/ray-operator/controllers/ray/rayjob_controller.go at v1.6.2"


def _missing(*, named: bool) -> Callable[[Manifests], Iterator[Finding]]:
    def check(manifests: Manifests) -> Iterator[Finding]:
        expected = expected_cluster(manifests)
        given = clusters(manifests)
        names = [name_of(item) for item in given]
        if expected is None or not given or expected.name in names or expected.named is not named:
            return
        key = "stack.names.cluster" if named else "stack.name"
        what = f"the job looks for the RayCluster {expected.name} ({key}), and these files have {', '.join(names)}"
        yield given[0].finding(("metadata", "name"), what)

    return check


RULES = (
    Problem(
        "cluster/missing",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.PENDING,
        title="the RayCluster that the values name is not in the given files",
        why="nothing was compared; without that cluster the operator never starts the job, and only an event says so",
        fix="write the name of your RayCluster under stack.names.cluster, or give the file of that cluster",
        source=_SOURCE,
        check=_missing(named=True),
    ),
    Problem(
        "cluster/not-compared",
        target=OBJECTS,
        severity=INFO,
        fails=Fails.SILENT,
        title="the job of the values runs on another RayCluster than the given ones",
        why="the checks of this domain compare a RayCluster with its job, but none of the given ones is the job's",
        fix="to run the job on a cluster of yours, write its name under stack.names.cluster",
        source=_SOURCE,
        check=_missing(named=False),
    ),
)
