"""A pod's shared memory and its other in-memory volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container, each_pod
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.pods.podspec import Found

_FOLDER: Final = "/dev/shm"  # noqa: S108 (what is shared is judged here, and nothing is written)
_SEVERAL: Final = 2
_EMPTY_DIR: Final = "https://kubernetes.io/docs/concepts/storage/volumes/#emptydir"


def _missing(pod: PodView, container: Container) -> Found:
    # KubeRay mounts one in Ray's container; a pod in the node's IPC namespace needs none.
    if container.gpus < _SEVERAL or pod.pod.ray or pod.spec.get("hostIPC") is True:
        return
    if _FOLDER not in container.mounts():
        what = f"container {container.name} has {container.gpus} GPUs, and nothing is mounted at {_FOLDER}"
        yield container.path, what


def _unlimited(pod: PodView) -> Found:
    # Of shared memory it is the program's own memory; kubelet gives the volume the size of the pod's memory limit.
    shared = {str(each.mounts().get(_FOLDER, {}).get("name", "")) for each in pod.containers()}
    for path, name, volume in pod.volumes():
        directory = mapping(volume.get("emptyDir"))
        if directory.get("medium") == "Memory" and directory.get("sizeLimit") is None and name not in shared:
            yield path, f"volume {name} is in memory and has no sizeLimit"


RULES = (
    Problem(
        "pods/shared-memory-missing",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_LOADING,
        title="a container with several GPUs has only the default /dev/shm",
        why="NCCL needs more than the default 64 MiB, and fails with: no space left on device",
        fix="mount an emptyDir with medium: Memory and a sizeLimit at /dev/shm",
        source=_EMPTY_DIR,
        check=each_container(_missing, trains=True),
    ),
    Problem(
        "pods/memory-volume-without-limit",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.LATER,
        title="a volume in memory has no size limit",
        why="it may use all memory of the pod, and then the training container is killed",
        fix="write a sizeLimit, or remove medium: Memory",
        source=_EMPTY_DIR,
        check=each_pod(_unlimited, trains=True),
    ),
)
