"""Settings that conflict with Ray's autoscaler or depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, Cluster, Group, each_cluster, each_worker_group, number
from postrender.finding import ERROR, INFO
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_V2: Final = "RAY_enable_autoscaler_v2"
_ON: Final = ("1", "true")


def _is_v2(cluster: Cluster) -> bool:
    return cluster.autoscaler.get("version") == "v2"


def _idle_without_v2(group: Group) -> Found:
    idle = number(group.spec.get("idleTimeoutSeconds"))
    if idle is None or idle < 0 or _is_v2(group.cluster):
        return
    # The operator reads the first of two variables with the same name.
    if next((value for _, _, value in group.cluster.head.env(_V2)), "") not in _ON:
        what = f"{group.title} has idleTimeoutSeconds {idle}, and autoscalerOptions.version is not v2"
        yield (*group.path, "idleTimeoutSeconds"), what


def _v2_alone(cluster: Cluster) -> Found:
    first = next(cluster.head.env(_V2), None)
    if first and not cluster.scales and first[2] in _ON:
        yield first[0], f"the head has {_V2}={first[2]}, and enableInTreeAutoscaling is not true"


def _twice(cluster: Cluster) -> Found:
    first = next(cluster.head.env(_V2), None)
    version = cluster.autoscaler.get("version")
    if first and cluster.scales and version is not None:
        yield first[0], f"the head has {_V2}, and autoscalerOptions.version is {version}"


def _restarts(cluster: Cluster) -> Found:
    if cluster.scales and _is_v2(cluster):
        for group in (cluster.head, *cluster.workers):
            policy = group.pod.get("restartPolicy") or "Never"
            if policy != "Never":
                path = (*group.path, "template", "spec", "restartPolicy")
                yield path, f"{group.title} has restartPolicy {policy}, and autoscalerOptions.version is v2"


def _trains(cluster: Cluster) -> Found:
    if cluster.scales and cluster.owner != "RayService":
        yield (*cluster.path, "enableInTreeAutoscaling"), "the autoscaler runs"


RULES = (
    Problem(
        "ray/idle-timeout-without-v2",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a worker group has an idle timeout, but the autoscaler is not v2",
        why=EVENT_ONLY,
        fix="write autoscalerOptions.version: v2, or remove idleTimeoutSeconds of the group",
        source=VALIDATION,
        check=each_worker_group(_idle_without_v2),
    ),
    Problem(
        "ray/autoscaler-v2-without-autoscaler",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the head enables autoscaler v2, but autoscaling is off",
        why=EVENT_ONLY,
        fix="remove the variable, or set enableInTreeAutoscaling: true and autoscalerOptions.version: v2",
        source=VALIDATION,
        check=each_cluster(_v2_alone),
    ),
    Problem(
        "ray/autoscaler-version-twice",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the version of the autoscaler is set in two ways",
        why=EVENT_ONLY,
        fix="remove the variable and keep autoscalerOptions.version",
        source=VALIDATION,
        check=each_cluster(_twice),
    ),
    Problem(
        "ray/restart-policy-with-v2",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a group restarts its pods in place, but the autoscaler is v2",
        why=EVENT_ONLY,
        fix="remove restartPolicy, or write Never",
        source=VALIDATION,
        check=each_cluster(_restarts),
    ),
    Problem(
        "ray/autoscaler-on",
        target=OBJECTS,
        severity=INFO,
        fails=Fails.LATER,
        title="the autoscaler runs in a cluster that trains",
        why="it removes idle workers between two phases of a step, and Argo CD and Flux undo its changes",
        fix="for a fixed number of nodes set enableInTreeAutoscaling: false and minReplicas = maxReplicas = replicas",
        source="https://github.com/ray-project/kuberay/issues/1120",
        check=each_cluster(_trains),
    ),
)
