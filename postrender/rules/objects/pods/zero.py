"""Pods without GPUs must leave nodes with GPUs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR
from postrender.manifests.pods import GPU, mapping
from postrender.rules.objects.pods.podspec import Container, Judged, each_container, each_pod
from postrender.rules.objects.quantity import quantity
from postrender.rules.rule import OBJECTS, Rule

if TYPE_CHECKING:
    from postrender.rules.objects.pods.podspec import Found

_SOURCE: Final = "kubernetes/plugin/pkg/admission/extendedresourcetoleration/admission.go at 143ac994"


def _zero(pod: Judged, container: Container) -> Found:
    for part in ("limits", "requests"):
        for name, amount in mapping(mapping(container.spec.get("resources")).get(part)).items():
            if "/" in name and amount is not None and quantity(amount) == 0:
                path = (*container.path, "resources", part, name)
                yield path, f"container {container.name} has {name}: 0 in {part}"


def _strays(pod: Judged) -> Found:
    """Look at pods of Ray only: many a DaemonSet is for all nodes."""
    chosen = pod.spec.get("nodeSelector") or mapping(pod.spec.get("affinity")).get("nodeAffinity")
    if pod.pod.ray and not pod.pod.gpu_container()[1] and not chosen and pod.tolerates(GPU):
        yield pod.path("tolerations"), "the pod has no GPUs, tolerates nodes with GPUs, and selects no others"


RULES = (
    Rule(
        "pods/zero-gpus",
        target=OBJECTS,
        severity=ERROR,
        title="a container asks for none of an extended resource",
        why="the name alone earns the pod the toleration of GPU nodes, where it can keep a worker from fitting",
        fix="remove the line from limits and requests",
        source=_SOURCE,
        fact="gke/R29",
        check=each_container(_zero),
    ),
    Rule(
        "pods/cpu-pod-on-gpu-nodes",
        target=OBJECTS,
        severity=ERROR,
        title="a pod of Ray without GPUs may land on a node with GPUs",
        why="training takes the whole node: with this pod on it the worker stays pending",
        fix="remove the toleration, or avoid nodes with the label cloud.google.com/gke-accelerator by an affinity",
        source=_SOURCE,
        fact="gke/R29",
        check=each_pod(_strays),
    ),
)
