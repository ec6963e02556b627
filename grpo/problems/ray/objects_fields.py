"""Fields that need a newer operator, or a feature gate, or must not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.problems.ray.rayspec import (
    OPERATOR,
    VALIDATION,
    Cluster,
    each_cluster,
    each_of,
)
from postrender.finding import ERROR, INFO, WARNING
from postrender.gate.manifests import joined
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.ray.rayspec import Found
    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path

# Fields of the next version, grouped by their object, most of them behind a feature gate; a test compares them with its
# definitions.
LATER: Final = {
    "a cluster": "historyServerOptions networkPolicy tlsOptions",
    "the head": "ingressOptions",
    "a worker group": "priority",
    "autoscalerOptions": "args command",
    "gcsFaultToleranceOptions": "backend storage",
    "a RayService": "suspend",
    "a RayCronJob": "timeZone",
}
_GRADUAL: Final = "NewClusterWithIncrementalUpgrade"
_EACH_OTHER: Final = each_of("RayService", "RayCronJob")


def _parts(cluster: Cluster) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    yield "a cluster", cluster.path, cluster.spec
    yield "the head", cluster.head.path, cluster.head.spec
    for group in cluster.workers:
        yield "a worker group", group.path, group.spec
    for name in ("autoscalerOptions", "gcsFaultToleranceOptions"):
        yield name, (*cluster.path, name), cluster.option(name)


def _other_part(item: Item) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield the part of a RayService or a RayCronJob outside its cluster and its job."""
    yield f"a {item.object['kind']}", ("spec",), mapping(item.object.get("spec"))


def _newer(parts: Iterator[tuple[str, Path, dict[str, Any]]]) -> Found:
    for of, path, spec in parts:
        for key in sorted(set(spec) & set(LATER.get(of, "").split())):
            yield (*path, key), f"the field {key} of {of} is for KubeRay 1.7 or newer"


def _gated(item: Item) -> Found:
    strategy = mapping(mapping(item.object.get("spec")).get("upgradeStrategy"))
    if item.object["kind"] == "RayCronJob":
        yield ("kind",), "nothing happens unless the operator runs with the feature gate RayCronJob"
    elif strategy.get("type") == _GRADUAL:
        what = "no upgrade happens unless the operator runs with the feature gate RayServiceIncrementalUpgrade"
        yield ("spec", "upgradeStrategy", "type"), what


def _owned(cluster: Cluster) -> Found:
    strategy = cluster.option("upgradeStrategy")
    if strategy.get("type") is not None and cluster.owner != "RayCluster":
        path = (*cluster.path, "upgradeStrategy", "type")
        yield path, f"the cluster of a {cluster.owner} has upgradeStrategy {strategy['type']}"


_DROPPED: Final = f"KubeRay {OPERATOR} drops the field, so the setting has no effect"

RULES = (
    Problem(
        "ray/newer-field",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a field is newer than the version of the operator that the charts are tested with",
        why=f"{_DROPPED}; 1.7 may need a feature gate for it",
        fix="install KubeRay 1.7 or newer with the feature gate of the field, or remove the field",
        source="kuberay/ray-operator/apis/ray/v1 at v1.7.0",
        check=joined(
            each_cluster(lambda cluster: _newer(_parts(cluster))),
            _EACH_OTHER(lambda item: _newer(_other_part(item))),
        ),
    ),
    Problem(
        "ray/upgrade-strategy-owned",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the cluster of a job or a service has an upgradeStrategy",
        why="the operator refuses the cluster that it creates, and the job waits for it until its deadline",
        fix="remove upgradeStrategy: the operator never changes such a cluster in place",
        source=VALIDATION,
        check=each_cluster(_owned),
    ),
    Problem(
        "ray/feature-gate",
        target=OBJECTS,
        severity=INFO,
        fails=Fails.SILENT,
        title="an object needs a feature gate of the operator that is off by default",
        why="without the feature gate the operator ignores the object: no job is created, no upgrade happens",
        fix="start the operator with the feature gate (featureGates in the values of its chart)",
        source="kuberay/ray-operator/pkg/features/features.go at v1.6.2",
        check=_EACH_OTHER(_gated),
    ),
)
