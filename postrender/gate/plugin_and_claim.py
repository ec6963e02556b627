"""A pod must not get the same devices from a device plugin and from a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import requested
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_EFA: Final = "vpc.amazonaws.com/efa"
_EFA_CLASS: Final = "efa.networking.k8s.aws"


def check(manifests: Manifests) -> Iterator[Finding]:
    """Find containers that request the plugin's EFA devices in pods that claim such devices."""
    for item, pod in manifests.pods():
        for position, container in enumerate(pod.containers()):
            part = requested(container).get(_EFA)
            if part and _EFA_CLASS in manifests.device_classes(pod):
                what = f"container {container.get('name')} requests {_EFA}, and the pod claims {_EFA_CLASS}"
                yield item.finding((*pod.path, "spec", "containers", position, "resources", part, _EFA), what)


RULE = Problem(
    "network/plugin-and-claim",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.PENDING,
    title="a pod requests EFA devices both from the device plugin and by a claim",
    why="plugin and driver must not manage the same device on a node; one of the two requests is never met",
    fix="set network.mode to devices or dranet, and remove the other request",
    source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html",
    check=check,
)
