"""Pods that the API server rejects because two of their fields conflict in a way that a schema cannot express.

tests/e2e/test_check.py compares these rules with a real API server. Pods that an operator derives from a Ray
cluster are rejected even later, when the operator creates them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.problems.pods.podspec import Container, PodView, each_container, each_pod, objects
from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found

_VALIDATION: Final = "kubernetes/pkg/apis/core/validation/validation.go at v1.36.3"
_OF_KUBERNETES: Final = ("cpu", "memory", "ephemeral-storage")
_PAGES: Final = "hugepages-"
# Kinds that keep pods running and select them by their labels.
_SELECTING: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_REFUSED: Final = "the API server refuses the object; of a Ray cluster, its pods, when the nodes are there"


def _resources(container: Container) -> tuple[dict[str, Any], dict[str, Any]]:
    resources = mapping(container.spec.get("resources"))
    return mapping(resources.get("limits")), mapping(resources.get("requests"))


def _is_device(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _unknown(pod: PodView, container: Container) -> Found:
    for part, given in zip(("limits", "requests"), _resources(container), strict=True):
        for name in given:
            if "/" not in name and name not in _OF_KUBERNETES and not name.startswith(_PAGES):
                path = (*container.path, "resources", part, name)
                yield path, f"container {container.name} has {name} in {part}, which is not a resource of Kubernetes"


def _parted(pod: PodView, container: Container) -> Found:
    for part, given in zip(("limits", "requests"), _resources(container), strict=True):
        for name, amount in given.items():
            found = quantity(amount) if _is_device(name) else None
            if found is not None and not found.is_integer():
                path = (*container.path, "resources", part, name)
                yield path, f"container {container.name} has {name}: {amount} in {part}, which is not a whole number"


def _pages(pod: PodView, container: Container) -> Found:
    named = {name for part in _resources(container) for name in part}
    pages = sorted(name for name in named if name.startswith(_PAGES))
    if pages and not named & {"cpu", "memory"}:
        path = (*container.path, "resources")
        yield path, f"container {container.name} has {pages[0]}, and neither cpu nor memory"


def _blank(pod: PodView, container: Container) -> Found:
    image = container.spec.get("image")
    # In a template, some platforms replace a single blank with an image.
    if isinstance(image, str) and image != image.strip() and (image.strip() or pod.item.object.get("kind") == "Pod"):
        yield (*container.path, "image"), f"the image of container {container.name} has blanks around it"


def _sources(pod: PodView) -> Found:
    for path, name, volume in pod.volumes():
        kinds = [key for key, value in volume.items() if key != "name" and value is not None]
        if len(kinds) > 1:
            yield path, f"volume {name} has several types: {' and '.join(kinds)}"
    for container in pod.containers():
        for path, name, entry in container.env():
            if entry.get("value") and mapping(entry.get("valueFrom")):
                yield path, f"variable {name} of container {container.name} has value and valueFrom"


def _matches(labels: dict[str, Any], each: dict[str, Any]) -> bool:
    key, operator, values = str(each.get("key")), str(each.get("operator")), sequence(each.get("values"))
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    return (key in labels and labels[key] in values) == (operator == "In")


def _selected(manifests: Manifests) -> Iterator[Finding]:
    for item, spec in objects(manifests, *_SELECTING):
        selector, path = spec.get("selector"), ("spec", "selector")
        if not isinstance(selector, dict):
            continue
        labels = mapping(mapping(mapping(spec.get("template")).get("metadata")).get("labels"))
        wanted, others = mapping(selector.get("matchLabels")), sequence(selector.get("matchExpressions"))
        for key, value in wanted.items():
            if key not in labels or (labels[key] or "") != (value or ""):
                yield item.finding((*path, "matchLabels", key), f"the pods do not have the label {key}: {value}")
        for number, each in enumerate(map(mapping, others)):
            if not _matches(labels, each):
                what = f"the labels of the pods do not fit {each.get('key')} {each.get('operator')}"
                yield item.finding((*path, "matchExpressions", number), what)
        if not wanted and not others:
            yield item.finding(path, "the selector is empty")


RULES = (
    Problem(
        "pods/no-such-resource",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a container requests a resource that does not exist",
        why=_REFUSED,
        fix="write cpu, memory, ephemeral-storage, or the device's whole name: nvidia.com/gpu",
        source=_VALIDATION,
        check=each_container(_unknown),
    ),
    Problem(
        "pods/part-of-a-device",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a container requests a fraction of a device",
        why=_REFUSED,
        fix="write a whole number; time-sharing and MIG divide GPUs on the node, not in the request",
        source=_VALIDATION,
        check=each_container(_parted),
    ),
    Problem(
        "pods/pages-alone",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a container requests huge pages, but neither cpu nor memory",
        why=_REFUSED,
        fix="add memory or cpu to the huge pages",
        source=_VALIDATION,
        check=each_container(_pages),
    ),
    Problem(
        "pods/blanks-around-image",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="the image of a container has blanks around it",
        why="the API server refuses the pod; for a workload or a Ray cluster, when its pods are created",
        fix="write the image without the blanks",
        source=_VALIDATION,
        check=each_container(_blank),
    ),
    Problem(
        "pods/two-sources",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a volume or a variable has two sources",
        why=_REFUSED,
        fix="keep one of them",
        source=_VALIDATION,
        check=each_pod(_sources),
    ),
    Problem(
        "pods/selector-differs",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="the selector of a workload is empty, or does not match the labels of its pods",
        why="the API server refuses the object, after others of the same release are installed",
        fix="write the same labels in spec.selector.matchLabels and spec.template.metadata.labels",
        source="kubernetes/pkg/apis/apps/validation/validation.go at v1.36.3",
        check=_selected,
    ),
)
