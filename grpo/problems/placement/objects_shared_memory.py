"""GPU pods have the shared memory set in the machine's profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.placement.target import Target, each_target, mounts
from postrender.finding import WARNING
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_FOLDER: Final = "/dev/shm"  # noqa: S108 (what is shared is judged here, and nothing is written)


def _small(target: Target) -> Found:
    wanted = target.expected.shared_memory
    needed = quantity(wanted)
    for group in target.gpu_groups():
        at, volume = mounts(group).get(_FOLDER, (None, {}))
        # Where nothing is mounted, KubeRay mounts as much as the memory limit.
        size = mapping(volume.get("emptyDir")).get("sizeLimit") if at is not None else group.limit("memory")
        found = quantity(size) if size is not None else None
        if needed is not None and found is not None and found < needed:
            mounted = ("volumeMounts", at) if at is not None else ("resources", "limits", "memory")
            what = f"{_FOLDER} of {group.title} has {size}, and the profile has {wanted} (accelerator.sharedMemory)"
            yield (*group.ray_path, *mounted), what


RULE = Problem(
    "cluster/small-shared-memory",
    target=OBJECTS,
    severity=WARNING,
    fails=Fails.LATER,
    title="a GPU pod of the RayCluster has less shared memory than the profile of its machine",
    why="NCCL, vLLM and Ray's object store share it: when it is full they fail with: no space left on device",
    fix="mount an emptyDir with medium: Memory and this sizeLimit at /dev/shm, or lower accelerator.sharedMemory",
    source="kuberay/ray-operator/controllers/ray/common/pod.go at v1.6.2",
    check=each_target(_small),
)
