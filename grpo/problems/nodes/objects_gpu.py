"""Pods without GPUs must not run on GPU nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container, each_pod
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import GPU, mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.profiles import ACCELERATOR
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo.problems.pods.podspec import Found

_SOURCE: Final = "kubernetes/plugin/pkg/admission/extendedresourcetoleration/admission.go at 143ac994"


def _requests_none(pod: PodView, container: Container) -> Found:
    for part in ("limits", "requests"):
        for name, amount in _resources(container, part).items():
            if "/" in name and amount is not None and quantity(amount) == 0:
                path = (*container.path, "resources", part, name)
                yield path, f"container {container.name} has {name}: 0 in {part}"


def _on_gpu_nodes(pod: PodView) -> Found:
    """Check only Ray's pods: many DaemonSets are meant for all nodes."""
    chosen = pod.spec.get("nodeSelector") or mapping(pod.spec.get("affinity")).get("nodeAffinity")
    if pod.pod.ray and not pod.pod.gpu_container()[1] and not chosen and pod.tolerates(GPU):
        yield pod.path("tolerations"), "the pod has no GPUs, tolerates nodes with GPUs, and selects no others"


def _kept_away(pod: PodView) -> Found:
    """Check Ray's pods that request no GPU: Kubernetes adds the toleration to those that do."""
    names = {name for each in pod.containers() for part in ("limits", "requests") for name in _resources(each, part)}
    asks = any("/gpu" in name for name in names) or pod.spec.get("resourceClaims")
    label = mapping(pod.spec.get("nodeSelector")).get(ACCELERATOR)
    if pod.pod.ray and label and not asks and not pod.tolerates(GPU):
        what = f"the pod has no GPUs and selects {label}, and does not tolerate {GPU}"
        yield pod.path("nodeSelector", ACCELERATOR), what


def _resources(container: Container, part: str) -> Mapping[str, object]:
    return mapping(mapping(container.spec.get("resources")).get(part))


RULES = (
    Problem(
        "pods/zero-gpus",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a container requests 0 of an extended resource",
        why="the name alone makes the pod tolerate GPU nodes, where it may leave no room for a worker",
        fix="remove the line from limits and requests",
        source=_SOURCE,
        check=each_container(_requests_none),
    ),
    Problem(
        "pods/cpu-pod-on-gpu-nodes",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a pod of Ray without GPUs may run on a node with GPUs",
        why="a training worker needs the whole node: with this pod on it, the worker stays pending",
        fix="remove the toleration, or add an affinity that avoids nodes with the label of your cloud's GPUs",
        source=_SOURCE,
        check=each_pod(_on_gpu_nodes),
    ),
    Problem(
        "pods/gpu-taint-not-tolerated",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.PENDING,
        title="a pod of Ray without GPUs selects nodes with GPUs, but does not tolerate their taint",
        why="GKE taints the nodes with nvidia.com/gpu, and adds the toleration only to pods that ask for a GPU",
        fix="remove the selector, or tolerate nvidia.com/gpu with operator Exists, which takes room from "
        "a worker there",
        source="https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus",
        check=each_pod(_kept_away),
    ),
)
