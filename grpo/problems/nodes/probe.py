"""Nodes that can take the stack's pods."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Final

from grpo.cluster import scheduling
from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import name_of
from grpo.cluster.scheduling import Node
from grpo.manifests.needs import references
from grpo.problems.probe import Result, failed, passed, skipped
from grpo.problems.problem import probe
from postrender.manifests.pods import GPU, Pod

_SHOW: Final = "kubectl describe nodes"
_POOL: Final = "create or enlarge the node pool; with an autoscaled pool, having no node yet is fine"
# How a reason starts, the fix, and the value behind it below the section of the pod: a node that fails later is nearer
# to taking the pod, so the last kind of reason that occurs is the one to act on.
_STAGES: Final = (
    (
        scheduling.NO_LABEL,
        "name the label that the nodes have, or create nodes with this one",
        "podSpec.nodeSelector",
    ),
    (scheduling.NO_MATCH, "change the affinity, or create nodes that match it", "podSpec.affinity"),
    (scheduling.NOT_READY, "look at their conditions, or wait for the node repair", ""),
    (scheduling.TAINT, "kubectl uncordon NODE, remove the taint, or tolerate it", "podSpec.tolerations"),
    (scheduling.TOO_SMALL, "use larger machines, repair the node, or request less", ""),
)
_SIZES: Final = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "ephemeralStorage"}


@probe("nodes", "no node takes a pod of the stack", "nodes", "networks")
def nodes(evidence: Evidence) -> Iterator[Result]:
    """Check the nodes' labels, taints and sizes as if the nodes were empty."""
    empty = [Node(each.item, {}) for each in scheduling.nodes(evidence)]
    for role, pod in evidence.expected.roles():
        spec = _with_networks(pod, evidence)
        obstacles = scheduling.obstacles(spec, empty)
        kept = {name for _, names in obstacles for name in names}
        fit = [name_of(node.item) for node in empty if name_of(node.item) not in kept]
        value = "ray.head" if role == "head" else "ray.workers.replicas"
        fitting = f"{role}: nodes that can take a pod: {len(fit)}"
        if pod.count is None:
            yield skipped(f"{fitting}; an autoscaler decides how many there are", value)
        elif len(fit) >= pod.count:
            yield passed(f"{fitting}, wanted: {pod.count}", value, _SHOW)
        else:
            text = f"{fitting}, wanted: {pod.count}. A pod needs {scheduling.needs(spec)}"
            reasons, places = [each for each, _ in obstacles], evidence.expected.places
            fix, behind = (_POOL, value) if fit or not obstacles else _nearest(role, pod, reasons, places)
            why = scheduling.counted(obstacles, len(empty))
            yield failed(f"{text}. {why}" if why else text, behind, fix, _SHOW)


def _with_networks(pod: Pod, evidence: Evidence) -> dict[str, Any]:
    """Return a pod's spec with what GKE adds for its networks; a node already offers the networks attached to it."""
    there = {name_of(each) for each in evidence.of("networks")}
    added = {f"networking.gke.io.networks/{name}": "1" for name in references.networks(pod) if name in there}
    containers = [*pod.containers(), {"resources": {"limits": added}}] if added else pod.containers()
    return {**pod.spec, "containers": containers}


def _nearest(role: str, pod: Pod, reasons: list[str], places: Container[str]) -> tuple[str, str]:
    """Return the fix and the values key behind the reasons why no node can take a pod."""
    section = "ray.head" if role == "head" else "ray.workers"
    stage, reason = max(
        (at, each) for each in reasons for at, (start, *_) in enumerate(_STAGES) if each.startswith(start)
    )
    _, fix, value = _STAGES[stage]
    named = f"accelerator.nodeSelector.{reason.removeprefix(f'{scheduling.NO_LABEL} ').partition('=')[0]}"
    if named in places:
        return fix, named
    if stage < len(_STAGES) - 1:
        return fix, f"{section}.{value}" if value else ""
    resource = reason.rpartition(" ")[2]
    plugin = f"accelerator.resources.{resource}"
    return fix, plugin if plugin in places else value_for_resource(sizes_of(role, pod), resource)


def sizes_of(role: str, pod: Pod) -> str:
    """Return the values section with a pod's sizes: a head with GPUs takes up a node as a worker does."""
    return "ray.head" if role == "head" and not pod.gpu_container()[1] else "accelerator.worker"


def value_for_resource(sizes: str, resource: str) -> str:
    """Return the values key that sets a pod's request for a resource; `sizes` is the section with the pod's sizes."""
    if resource in _SIZES:
        return f"{sizes}.{_SIZES[resource]}"
    return "accelerator.gpusPerNode" if resource == GPU else "network.mode"


@probe("room", "too few of these nodes are free now", "nodes", "allPods", "pods")
def room(evidence: Evidence) -> Iterator[Result]:
    """Check the free capacity of the nodes; this stack's own pods do not count, because they are replaced or stay."""
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
        used = "; ".join(
            f"{len(names)} {reason}" for reason, names in obstacles if reason.startswith(scheduling.IN_USE)
        )
        if pod.count is not None and free < pod.count and used:
            yield failed(
                f"{role}: free nodes: {free}, wanted: {pod.count}; in use: {used}",
                "ray.workers.replicas",
                "wait, stop what uses them, or use a queue (docs/howto/kueue.md)",
                "kubectl get pods -A -o wide",
            )
        elif pod.count is not None and free >= pod.count:
            yield passed(f"{role}: free nodes: {free}, wanted: {pod.count}")
