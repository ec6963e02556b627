"""What an image and its user must have for RDMA: the library, and memory that may be locked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.network.objects_nccl import variables_of, wiring_of
from grpo.problems.pods.podspec import Container, PodView, each_container, each_pod
from postrender.finding import WARNING
from postrender.manifests.nccl import NET
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.pods.podspec import Found

_LOCK: Final = "IPC_LOCK"
# Its Dockerfile installs no RDMA library, and ends with the user 1000.
_OF_RAY: Final = re.compile(r"(?:(?:index\.)?docker\.io/)?rayproject/ray[:@]")
_UID_OF_RAY: Final = 1000
_RDMA: Final = "rdma/"


def _is_of_ray(container: Container) -> bool:
    return _OF_RAY.match(str(container.spec.get("image"))) is not None


def _user(pod: PodView, container: Container) -> str:
    """Return how the user of a container is known not to be root; empty if it is root, or not known."""
    own = mapping(container.spec.get("securityContext"))
    context = {**mapping(pod.spec.get("securityContext")), **own}
    user = context.get("runAsUser")
    if user is None and _is_of_ray(container):
        return f"the image runs as user {_UID_OF_RAY}"
    if user is None:
        return "the pod has runAsNonRoot" if context.get("runAsNonRoot") is True else ""
    return f"runAsUser is {user}" if user != 0 else ""


def _without_effect(pod: PodView, container: Container) -> Found:
    context = mapping(container.spec.get("securityContext"))
    added = sequence(mapping(context.get("capabilities")).get("add"))
    if _LOCK in added and context.get("privileged") is not True and (user := _user(pod, container)):
        path = (*container.path, "securityContext", "capabilities", "add", added.index(_LOCK))
        yield path, f"container {container.name} adds {_LOCK}, and {user}"


def _without_library(pod: PodView) -> Found:
    wiring, main = wiring_of(pod), pod.main()
    net = variables_of(wiring).get(NET, "").lower() if wiring and wiring.mode == "devices" else ""
    if main and _is_of_ray(main) and (net == "ib" or any(name.startswith(_RDMA) for name in main.requested)):
        image = main.spec.get("image")
        yield (*main.path, "image"), f"container {main.name} uses RDMA, and {image} has no libibverbs"


RULES = (
    Problem(
        "network/capability-without-root",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_LOADING,
        title="a container adds IPC_LOCK, and does not run as root",
        why="only root gets added capabilities: RDMA memory stays limited (ulimit -l), so NCCL may fail to register it",
        fix="write securityContext: {runAsUser: 0} for the container, or see that ulimit -l in a pod prints unlimited",
        source="https://github.com/kubernetes/kubernetes/issues/56374",
        check=each_container(_without_effect, trains=True),
    ),
    Problem(
        "network/image-without-rdma",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_LOADING,
        title="a pod uses RDMA with Ray's own image, which has no library for it",
        why="NCCL loads libibverbs.so.1 from the image: without it, it ends with: Failed to initialize any NET plugin",
        fix="build an image from it with the packages libibverbs1 and ibverbs-providers, or with the cloud's OFED",
        source="ray/docker/base-deps/Dockerfile at 00c1d517",
        check=each_pod(_without_library),
    ),
)
