"""Privileges of training pods on their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container, each_pod
from postrender.finding import ERROR
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.pods.podspec import Found

_SHARED: Final = {"hostNetwork": "network", "hostPID": "processes"}
_EVERYTHING: Final = ("SYS_ADMIN", "ALL")


def _privileged(pod: PodView, container: Container) -> Found:
    context = mapping(container.spec.get("securityContext"))
    if context.get("privileged") is True:
        yield (*container.path, "securityContext", "privileged"), f"container {container.name} is privileged"
    for number, each in enumerate(sequence(mapping(context.get("capabilities")).get("add"))):
        if each in _EVERYTHING:
            path = (*container.path, "securityContext", "capabilities", "add", number)
            yield path, f"container {container.name} has the capability {each}"


def _shared(pod: PodView) -> Found:
    wiring = pod.manifests.wiring
    asked = bool(wiring and pod.wired and wiring.uses_host_network)
    for key, what in _SHARED.items():
        if pod.spec.get(key) is True and not (asked and key == "hostNetwork"):
            yield pod.path(key), f"the pod has the {what} of its node ({key})"


RULES = (
    Problem(
        "pods/privileged",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a training container is privileged, or has the capability SYS_ADMIN or ALL",
        why="NCCL and GPUDirect RDMA need at most IPC_LOCK; GKE Autopilot refuses the pod",
        fix="remove it, and add only the capability IPC_LOCK",
        source="https://cloud.google.com/kubernetes-engine/docs/concepts/autopilot-security",
        check=each_container(_privileged, trains=True),
    ),
    Problem(
        "pods/host-namespaces",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a training pod uses the network or process namespace of its node",
        why="the pod shares its node's ports and processes; on GKE it gets no GPU network, and Autopilot refuses it",
        fix="remove it: devices and interfaces for RDMA come to the pod; or write accelerator.hostNetwork: true",
        source="https://cloud.google.com/kubernetes-engine/docs/concepts/autopilot-security",
        check=each_pod(_shared, trains=True),
    ),
)
