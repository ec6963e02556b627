"""The container with the GPUs must be the first container in its pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.profiles import INTERFACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Pod


def check(manifests: Manifests) -> Iterator[Finding]:
    """Check pods that use complete GKE nodes with RDMA, and every pod of a Ray cluster."""
    behind = [(item, pod) for item, pod in manifests.pods() if pod.gpu_container()[0]]
    if not behind:
        return
    judged = {id(pod) for _, pod, wiring in manifests.whole_pods() if wiring.is_google and wiring.mode != "none"}
    for _, pod, asked in manifests.other_pods(lambda _, pod: _has_rdma(pod)):
        if all(machine.rdma and pod.gpu_container()[1] == machine.gpus for machine in asked):
            judged.add(id(pod))
    for item, pod in behind:
        if pod.ray or id(pod) in judged:
            position, count = pod.gpu_container()
            containers = pod.containers()
            first, name = containers[0].get("name"), containers[position].get("name")
            path = (*pod.path, "spec", "containers", position)
            yield item.finding(path, f"container {name} has {count} GPUs and comes after {first}")


def _has_rdma(pod: Pod) -> bool:
    """Return whether a pod requests interfaces, in one of the two ways that GKE supports."""
    annotations = mapping(mapping(pod.template.get("metadata")).get("annotations"))
    return INTERFACES in annotations or bool(pod.spec.get("resourceClaims"))


RULE = Problem(
    "pods/gpu-container-not-first",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_START,
    title="the container with the GPUs is not the first one of its pod",
    why="GKE gives the RDMA devices only to the first container, and KubeRay starts Ray in the first one",
    fix="move the container with the GPUs to the front of the list",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
