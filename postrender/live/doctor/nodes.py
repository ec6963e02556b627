"""Nodes that take the pods of the stack."""

from __future__ import annotations

from collections.abc import Iterator

from postrender.live import scheduling
from postrender.live.doctor.check import Result, check, failed, passed, skipped
from postrender.live.evidence import Evidence, name_of
from postrender.live.scheduling import Node


@check("nodes", "there are nodes that take each pod", "nodes")
def nodes(evidence: Evidence) -> Iterator[Result]:
    """Judge the labels, taints and sizes of the nodes as if they were empty."""
    empty = [Node(each.item, {}) for each in scheduling.nodes(evidence)]
    for role, pod in evidence.expected.roles():
        obstacles = scheduling.obstacles(pod.spec, empty)
        kept = {name for _, names in obstacles for name in names}
        fit = [name_of(node.item) for node in empty if name_of(node.item) not in kept]
        needs = scheduling.needs(pod.spec)
        value = "ray.head" if role == "head" else "ray.workers.replicas"
        if pod.count is None:
            yield skipped(f"{role}: {len(fit)} nodes take a pod, and an autoscaler decides how many there are", value)
        elif len(fit) >= pod.count:
            yield passed(f"{role}: {len(fit)} nodes take a pod, {pod.count} wanted", value, "kubectl get nodes -L …")
        else:
            why = "; ".join(f"{len(names)} {reason}" for reason, names in obstacles) or "the cluster has no node"
            yield failed(
                f"{role}: {len(fit)} of {pod.count} wanted nodes. A pod needs {needs}. Of {len(empty)} nodes: {why}",
                value,
                "make or enlarge the node pool; an autoscaled pool may have none yet, then nothing is wrong",
                "kubectl describe nodes",
            )


@check("room", "enough of these nodes are free now", "nodes", "allPods", "pods")
def room(evidence: Evidence) -> Iterator[Result]:
    """Judge what is left on the nodes; pods of this stack do not count, they are replaced or stay."""
    mine = {name_of(pod) for pod in evidence.of("pods")}
    others = [
        pod
        for pod in evidence.of("allPods")
        if name_of(pod) not in mine or pod["metadata"].get("namespace") != evidence.expected.namespace
    ]
    among = scheduling.nodes(evidence, others)
    for role, pod in evidence.expected.roles():
        obstacles = scheduling.obstacles(pod.spec, among)
        free = len(among) - sum(len(names) for _, names in obstacles)
        used = "; ".join(f"{len(names)} {reason}" for reason, names in obstacles if " left" in reason)
        if pod.count is not None and free < pod.count and used:
            yield failed(
                f"{role}: {free} of {pod.count} wanted nodes are free: {used}",
                "ray.workers.replicas",
                "wait, stop what uses them, or use a queue (docs/howto/kueue.md)",
                "kubectl get pods -A -o wide",
            )
        elif pod.count is not None and free >= pod.count:
            yield passed(f"{role}: {free} nodes are free, {pod.count} wanted")
