"""What a machine offers: capacity types, architecture, CPUs and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import PodView, each_pod
from postrender.finding import ERROR, WARNING
from postrender.gate.another_accelerator import others_of
from postrender.manifests.pods import GPU, mapping, names, selected
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import profiles
from postrender.values.profiles import ACCELERATOR
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from grpo.problems.pods.podspec import Found
    from postrender.manifests.pods import Path

_ARCH: Final = "kubernetes.io/arch"
# A GPU that is shared or partitioned counts several times.
_PARTS: Final = ("cloud.google.com/gke-gpu-partition-size", "cloud.google.com/gke-gpu-sharing-strategy")
_KINDS: Final = ("spot", "flex-start")
# What the profiles with this label say of a node is the whole machine.
_UNRESERVED: Final = "node.coreweave.cloud/type"
_NEARLY: Final = 0.98
_GIBIBYTE: Final = 1024**3
# Machines without a profile; values/accelerators has the facts of the others.
_ROOM: Final = {"nvidia-h100-80gb": (205, 1760)}
_MACHINES: Final = "https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines"


def _room(pod: PodView) -> dict[str, tuple[int, int]]:
    """Return the cores and the GiB of the nodes that a pod selects, by their label; empty if unknown."""
    asked = selected(pod.spec, ACCELERATOR)
    found = {label: _ROOM[label] for label in asked if label in _ROOM}
    # `machines` finds none if one of several has no profile.
    for machine in pod.machines() or (each for label in asked for each in profiles.chosen({ACCELERATOR: {label}})):
        cores, memory = quantity(machine.cpu), quantity(machine.memory)
        if not cores or not memory:
            return {}
        found[machine.label] = (int(cores), int(memory // _GIBIBYTE))
    return found if asked <= found.keys() else {}


def _sold(pod: PodView) -> Found:
    known = pod.machines()
    selector = mapping(pod.spec.get("nodeSelector"))
    for kind in _KINDS:
        name = f"cloud.google.com/gke-{kind}"
        is_selected = str(selector.get(name)).lower() == "true"
        if known and is_selected and all(kind in machine.refuses for machine in known):
            yield pod.path("nodeSelector", name), f"the pod selects {names(known)} and {name}"


def _arm(pod: PodView) -> Found:
    known = pod.machines()
    if not known or any(machine.arch != "arm64" for machine in known):
        return
    # Other clouds do not say that they taint these nodes.
    if all(machine.is_google for machine in known) and not pod.tolerates(_ARCH):
        yield pod.path(), f"the pod selects {names(known)}, and does not tolerate {_ARCH}=arm64"
    arch = mapping(pod.spec.get("nodeSelector")).get(_ARCH)
    if arch not in (None, "arm64"):
        yield pod.path("nodeSelector", _ARCH), f"the pod selects {names(known)} and {_ARCH} {arch}"


def _requested(pod: PodView, name: str) -> tuple[float, Path]:
    """Return all containers' total request, or a larger init container's, and the path of the largest request."""
    running, before = 0.0, 0.0
    most: tuple[float, Path] = (0.0, pod.path("containers"))
    for container in pod.containers():
        resources = mapping(container.spec.get("resources"))
        kind = next((kind for kind in ("requests", "limits") if name in mapping(resources.get(kind))), "")
        size = (quantity(resources[kind][name]) if kind else None) or 0.0
        most = max(most, (size, (*container.path, "resources", kind, name)), key=lambda found: found[0])
        if container.init and container.spec.get("restartPolicy") != "Always":
            before = max(before, size)
        else:
            running += size
    return max(running, before), most[1]


def _large(pod: PodView) -> Found:
    known, room = pod.machines(), _room(pod)
    if not (known or room) or others_of(pod.manifests, pod.pod):
        # The requests of the values' machine are no mistake of their own.
        return
    asked, path = _requested(pod, GPU)
    has_parts = any(selected(pod.spec, each) for each in _PARTS)
    if known and not has_parts and asked > (most := max(machine.gpus for machine in known)):
        yield path, f"the pod requests {asked:g} GPUs, and {names(known)} has {most}"
    if not room:
        return
    cores, memory = map(max, zip(*room.values(), strict=True))
    machine = " or ".join(sorted(room))
    asked, path = _requested(pod, "cpu")
    if asked > cores:
        yield path, f"the pod requests {asked:g} cores, and {machine} has about {cores} for it"
    asked, path = _requested(pod, "memory")
    if (asked := asked / _GIBIBYTE) > memory:
        yield path, f"the pod requests {asked:.0f} GiB, and {machine} has about {memory} for it"


def _whole(pod: PodView) -> Found:
    """Find requests of nearly all of a machine whose reservation is not published."""
    room = _room(pod) if pod.machines() and selected(pod.spec, _UNRESERVED) else {}
    if not room or others_of(pod.manifests, pod.pod):
        return
    machine = " or ".join(sorted(room))
    for name, unit, words, most in zip(
        ("cpu", "memory"), (1, _GIBIBYTE), ("cores", "GiB"), map(max, zip(*room.values(), strict=True)), strict=True
    ):
        asked, path = _requested(pod, name)
        if _NEARLY * most < (amount := asked / unit) <= most:
            yield path, f"the pod requests {amount:g} of the {most} {words} of {machine}"


RULES = (
    Problem(
        "nodes/too-large",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a pod requests more than its machine has",
        why="the pod stays pending forever, and the autoscaler may create nodes for nothing",
        fix="request less: the cloud, DaemonSets and sidecars need a part of the machine",
        source=_MACHINES,
        check=each_pod(_large),
    ),
    Problem(
        "nodes/whole-machine",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.PENDING,
        title="a pod requests nearly all of a machine",
        why="kubelet, the system and DaemonSets take a part of it: with less left than asked, the pod stays pending",
        fix="leave a tenth, as the profile's worker does (accelerator.worker); kubectl describe node shows Allocatable",
        source="https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check=each_pod(_whole),
    ),
    Problem(
        "nodes/not-sold-so",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a pod selects a capacity type that the machine does not have",
        why="there is no Spot or flex-start capacity of A4X machines: the pods stay pending",
        fix="remove the selector, and name a reservation",
        source=_MACHINES,
        check=each_pod(_sold),
    ),
    Problem(
        "nodes/arm-not-tolerated",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a pod for an arm64 machine does not tolerate arm64, or selects another architecture",
        why="GKE taints such nodes with kubernetes.io/arch=arm64, and the pods stay pending",
        fix="tolerate kubernetes.io/arch=arm64:NoSchedule, and use an image for arm64",
        source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom-a4x",
        check=each_pod(_arm),
    ),
)
