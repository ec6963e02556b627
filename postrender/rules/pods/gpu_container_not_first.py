"""The container with the GPUs must be the first one of its pod."""

from __future__ import annotations

from postrender.rules import ERROR, Hit, Manifests, Rule, at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def check(manifests: Manifests) -> Iterator[Hit]:
    """Look at pods that take whole nodes, and at every pod of a Ray cluster."""
    whole = {id(pod) for _, pod, wiring in manifests.whole_pods() if wiring.mode != "none"}
    for item, pod in manifests.pods():
        position, count = pod.gpu_container()
        if position and (pod.ray or id(pod) in whole):
            containers = pod.containers()
            first, name = containers[0].get("name"), containers[position].get("name")
            path = (*pod.path, "spec", "containers", position)
            yield at(item, path, f"container {name} takes {count} GPUs and stands behind {first}")


RULE = Rule(
    "pods/gpu-container-not-first",
    severity=ERROR,
    title="the GPU container is not the first container",
    why="GKE gives the RDMA devices to the first container alone, and KubeRay starts Ray in the first one",
    fix="move the container with the GPUs to the front of the list",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
