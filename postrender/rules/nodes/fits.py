"""What a machine is sold as, runs, and has room for."""

from __future__ import annotations

from postrender.pods import accelerators, mapping
from postrender.rules import ERROR, Rule
from postrender.rules.podspec import Judged, each_pod
from postrender.rules.rayspec import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from postrender.rules.podspec import Found

_ARM: Final = ("nvidia-gb200", "nvidia-gb300")
_ARCH: Final = "kubernetes.io/arch"
_NOT_SOLD: Final = ("cloud.google.com/gke-spot", "cloud.google.com/gke-flex-start")
_GIBIBYTE: Final = 1024**3
# Cores and GiB that GKE leaves to pods, without what its own DaemonSets and a sidecar take.
_ROOM: Final = {
    "nvidia-b200": (221, 3740),
    "nvidia-h200-141gb": (221, 2780),
    "nvidia-gb200": (137, 827),
    "nvidia-gb300": (141, 898),
    "nvidia-h100-mega-80gb": (205, 1760),
    "nvidia-h100-80gb": (205, 1760),
    "nvidia-rtx-pro-6000": (380, 1352),
}
_MACHINES: Final = "https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines"


def _sold(pod: Judged) -> Found:
    asked = accelerators(pod.spec)
    if not asked or not asked.issubset(_ARM):
        return
    for name in _NOT_SOLD:
        if str(mapping(pod.spec.get("nodeSelector")).get(name)).lower() == "true":
            what = f"the pod selects {' or '.join(sorted(asked))} and {name}"
            yield pod.path("nodeSelector", name), what


def _arm(pod: Judged) -> Found:
    asked = accelerators(pod.spec)
    if not asked or not asked.issubset(_ARM):
        return
    machine = " or ".join(sorted(asked))
    if not pod.tolerates(_ARCH):
        yield pod.path(), f"the pod selects {machine}, and does not tolerate {_ARCH}=arm64"
    arch = mapping(pod.spec.get("nodeSelector")).get(_ARCH)
    if arch not in (None, "arm64"):
        yield pod.path("nodeSelector", _ARCH), f"the pod selects {machine} and {_ARCH} {arch}"


def _asked(pod: Judged, name: str) -> float:
    """Return what all containers together ask for; an init container alone may be the largest."""
    running, before = 0.0, 0.0
    for container in pod.containers():
        resources = mapping(container.spec.get("resources"))
        amount = mapping(resources.get("requests")).get(name, mapping(resources.get("limits")).get(name))
        size = (quantity(amount) if amount is not None else None) or 0.0
        if container.init and container.spec.get("restartPolicy") != "Always":
            before = max(before, size)
        else:
            running += size
    return max(running, before)


def _large(pod: Judged) -> Found:
    room = [_ROOM[label] for label in accelerators(pod.spec) if label in _ROOM]
    if not room:
        return
    cores, memory = max(cores for cores, _ in room), max(memory for _, memory in room)
    machine = " or ".join(sorted(accelerators(pod.spec)))
    if (asked := _asked(pod, "cpu")) > cores:
        yield pod.path("containers"), f"the pod asks for {asked:g} cores, and {machine} has about {cores} for it"
    if (asked := _asked(pod, "memory") / _GIBIBYTE) > memory:
        yield pod.path("containers"), f"the pod asks for {asked:.0f} GiB, and {machine} has about {memory} for it"


RULES = (
    Rule(
        "nodes/too-large",
        severity=ERROR,
        title="a pod asks for more than its machine has",
        why="it stays pending for ever, or until the autoscaler has made nodes for nothing",
        fix="ask for less: part of the machine is for GKE, DaemonSets and sidecars",
        source=_MACHINES,
        check=each_pod(_large),
    ),
    Rule(
        "nodes/not-sold-so",
        severity=ERROR,
        title="a machine is asked for in a way in which it is not sold",
        why="there is no Spot or flex-start capacity of A4X machines: the pods stay pending",
        fix="remove the selector, and name a reservation",
        source=_MACHINES,
        check=each_pod(_sold),
    ),
    Rule(
        "nodes/arm-not-tolerated",
        severity=ERROR,
        title="a pod for an arm64 machine does not fit it",
        why="GKE taints such nodes with kubernetes.io/arch=arm64, and the pods stay pending",
        fix="tolerate kubernetes.io/arch=arm64:NoSchedule, and give an image that exists for arm64",
        source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom-a4x",
        check=each_pod(_arm),
    ),
)
