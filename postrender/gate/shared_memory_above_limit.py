"""A container's shared memory must fit its memory limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Path, Pod

_FOLDER: Final = "/dev/shm"  # noqa: S108 (what is shared is judged here, and nothing is written)


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the volume at /dev/shm with the memory limit, in GPU pods and Ray pods."""
    for item, pod in manifests.pods():
        if pod.ray or pod.gpu_container()[1]:
            yield from (item.finding(path, what) for path, what in _above(pod))


def _above(pod: Pod) -> Iterator[tuple[Path, str]]:
    volumes = list(map(mapping, sequence(pod.spec.get("volumes"))))
    for kind in ("initContainers", "containers"):
        for container in map(mapping, sequence(pod.spec.get(kind))):
            name = _mounted(container)
            at = next((at for at, each in enumerate(volumes) if name and each.get("name") == name), None)
            limit = mapping(mapping(container.get("resources")).get("limits")).get("memory")
            if at is None or limit is None:
                continue
            directory = mapping(volumes[at].get("emptyDir"))
            size, most = directory.get("sizeLimit"), quantity(limit)
            large = quantity(size) if size is not None else None
            if directory.get("medium") == "Memory" and large is not None and most is not None and large > most:
                path = (*pod.path, "spec", "volumes", at, "emptyDir", "sizeLimit")
                yield path, f"{_FOLDER} of {container.get('name')} has {size}, its memory limit is {limit}"


def _mounted(container: dict[str, Any]) -> str:
    """Return the name of the volume mounted at the folder; if there are two, the last one applies."""
    mounts = map(mapping, sequence(container.get("volumeMounts")))
    found = [each.get("name") for each in mounts if str(each.get("mountPath", "")).rstrip("/") == _FOLDER]
    return str(found[-1] or "") if found else ""


RULE = Problem(
    "pods/shared-memory-above-limit",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.LATER,
    title="the shared memory of a container may exceed its memory limit",
    why="its content counts against the memory limit: the container is killed before the volume is full",
    fix="raise resources.limits.memory above sizeLimit, with room for the processes, or lower accelerator.sharedMemory",
    source="https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
    check=check,
)
