"""The RayCluster that the job in the values looks for, if somebody else created it.

A cluster from the chart raycluster has its facts in a variable of the head: the rule over that variable compares
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.problems.ray.rayspec import Cluster, Group, items
from grpo.values.job_cluster import VARIABLE, StackWiring
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import gpus, mapping, sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grpo.problems.ray.rayspec import Check, Found
    from grpo.values import job_cluster as cluster
    from postrender.finding import Finding
    from postrender.gate.manifests import Item

SOURCE: Final = "charts/common/templates/_pod.tpl at 0.1.0"


class Target(NamedTuple):
    """A RayCluster, and what the job in the values expects of it."""

    found: Cluster
    expected: cluster.Cluster

    def groups(self) -> list[Group]:
        """Return the head and the worker groups."""
        return [self.found.head, *self.found.workers]

    def gpu_groups(self) -> list[Group]:
        """Return the groups whose pods have GPUs."""
        return [group for group in self.groups() if gpus(group.ray)]

    @property
    def is_ours(self) -> bool:
        """Return whether the chart raycluster created the RayCluster."""
        return any(True for _ in self.found.head.env(VARIABLE))


def clusters(manifests: Manifests) -> list[Item]:
    """Return the RayClusters."""
    return list(items(manifests, "RayCluster"))


def name_of(item: Item) -> str:
    """Return an object's name."""
    return str(mapping(item.object.get("metadata")).get("name") or "")


def expected_cluster(manifests: Manifests) -> cluster.Cluster | None:
    """Return the RayCluster that the job in the values looks for, or None without such values."""
    return manifests.wiring.cluster if isinstance(manifests.wiring, StackWiring) else None


def targets(manifests: Manifests) -> Iterator[Target]:
    """Yield the RayClusters with the name that the job looks for."""
    expected = expected_cluster(manifests)
    for item in clusters(manifests):
        spec = item.object.get("spec")
        if expected and name_of(item) == expected.name and isinstance(spec, dict):
            yield Target(Cluster(item, ("spec",), spec), expected)


def each_target(check: Callable[[Target], Found], *, ours: bool = False) -> Check:
    """Turn a function over one such cluster into a check of the chart raycluster's clusters (`ours`) or of others."""

    def run(manifests: Manifests) -> Iterator[Finding]:
        for target in targets(manifests):
            if target.is_ours is ours:
                for path, what in check(target):
                    yield target.found.item.finding(path, what)

    return run


def mounts(group: Group) -> dict[str, tuple[int, dict[str, object]]]:
    """Return what Ray's container mounts: by mount path, the mount's position and the volume."""
    volumes = {str(each.get("name")): each for each in map(mapping, sequence(group.pod.get("volumes")))}
    found = enumerate(map(mapping, sequence(group.ray.get("volumeMounts"))))
    return {
        str(each.get("mountPath", "")).rstrip("/") or "/": (at, volumes.get(str(each.get("name")), {}))
        for at, each in found
    }
