"""The number of pods in a worker group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, Cluster, Group, each_cluster, each_worker_group, number
from postrender.finding import ERROR, WARNING
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_MOST: Final = 2147483647


def _bounds(group: Group) -> tuple[int | None, int | None]:
    """Return minimum and maximum replicas, with the API server's defaults; None for a value that it rejects."""
    least, most = group.spec.get("minReplicas"), group.spec.get("maxReplicas")
    return 0 if least is None else number(least), _MOST if most is None else number(most)


def _crossed(group: Group) -> Found:
    least, most = _bounds(group)
    if least is not None and most is not None and least > most >= 0:
        what = f"{group.title} has minReplicas {least} and maxReplicas {most}"
        yield (*group.path, "minReplicas"), what


def _outside(group: Group) -> Found:
    least, most = _bounds(group)
    count = number(group.spec.get("replicas"))
    if count is None or least is None or most is None or not 0 <= least <= most:
        return
    if not least <= count <= most:
        makes = min(max(count, least), most)
        what = f"{group.title} asks for {count} replicas between {least} and {most}: the operator makes {makes}"
        yield (*group.path, "replicas"), what


def _twice(cluster: Cluster) -> Found:
    seen = set()
    for group in cluster.workers:
        name = str(group.spec.get("groupName", ""))
        if name in seen:
            yield (*group.path, "groupName"), f"two worker groups are called {name}"
        seen.add(name)


def _suspended(group: Group) -> Found:
    if group.cluster.scales and group.spec.get("suspend") is True:
        yield (*group.path, "suspend"), f"{group.title} is suspended and enableInTreeAutoscaling is true"


RULES = (
    Problem(
        "ray/min-above-max",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a worker group has minReplicas above maxReplicas",
        why=EVENT_ONLY,
        fix="for training write the number of nodes into replicas, minReplicas and maxReplicas",
        source=VALIDATION,
        check=each_worker_group(_crossed),
    ),
    Problem(
        "ray/replicas-outside-bounds",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a worker group has replicas below minReplicas or above maxReplicas",
        why="the operator uses the nearest bound, and a job that needs all nodes waits until its deadline",
        fix="write the number of nodes into replicas, minReplicas and maxReplicas",
        source="kuberay/ray-operator/controllers/ray/utils/util.go at v1.6.2",
        check=each_worker_group(_outside),
    ),
    Problem(
        "ray/group-name-twice",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="two worker groups have the same name",
        why="without the operator's webhook both are accepted, and each deletes the pods of the other",
        fix="give each worker group its own name",
        source="kuberay/ray-operator/pkg/webhooks/v1/raycluster_webhook.go at v1.6.2",
        check=each_cluster(_twice),
    ),
    Problem(
        "ray/suspended-group-scales",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a worker group is suspended, but the autoscaler runs",
        why=EVENT_ONLY,
        fix="set enableInTreeAutoscaling: false, or remove suspend",
        source=VALIDATION,
        check=each_worker_group(_suspended),
    ),
)
