"""GPU pods mount the machine's folders: the driver, and NCCL's RDMA plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.placement.target import Target, each_target, mounts
from postrender.finding import WARNING
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_HOST = "host-"


def _missing(target: Target) -> Found:
    for group in target.gpu_groups():
        there = mounts(group)
        for mount in target.expected.folders:
            if mount["mountPath"] not in there:
                key = f"accelerator.hostPaths.{mount['name'].removeprefix(_HOST)}"
                what = f"{group.title} mounts nothing at {mount['mountPath']}, a folder of the machine ({key})"
                yield group.ray_path, what


RULE = Problem(
    "cluster/machine-folders-missing",
    target=OBJECTS,
    severity=WARNING,
    fails=Fails.AT_LOADING,
    title="a GPU pod of the RayCluster does not mount a folder of its machine",
    why="without the plugin's folder NCCL uses TCP, or does not start with NCCL_NET: gIB",
    fix="let the post-renderer wire the RayCluster, or mount the folder as hostPath with type: Directory",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=each_target(_missing),
)
