"""The GPUs that Ray is told to have, and those of its container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.ray.rayspec import Group, each_group
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import GPU, mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity, whole

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_NAME = "num-gpus"


def _told(group: Group) -> int | None:
    """Return the number that the group gives Ray; None if it gives none, or its GPUs are not known."""
    elsewhere = "GPU" in mapping(group.spec.get("resources")) or group.pod.get("resourceClaims")
    told = quantity(group.params.get(_NAME)) if _NAME in group.params and not elsewhere else None
    return None if told is None or not told.is_integer() else int(told)


def _too_many(group: Group) -> Found:
    told, has = _told(group), whole(group.limit(GPU))
    if told is not None and told > has:
        path = (*group.path, "rayStartParams", _NAME)
        yield path, f"{group.title} tells Ray of {told} GPUs ({_NAME}), and its container has {has}"


def _unused(group: Group) -> Found:
    told, has = _told(group), whole(group.limit(GPU))
    # A head of which Ray is to use no GPU gives it none.
    if told is not None and told < has and not (group.head and not told):
        path = (*group.path, "rayStartParams", _NAME)
        yield path, f"{group.title} tells Ray of {told} GPUs ({_NAME}), and its container has {has}"


RULES = (
    Problem(
        "ray/more-gpus-than-container",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_LOADING,
        title="Ray is told of more GPUs than its container has",
        why="Ray starts workers there that find no GPU: CUDA ends with: no CUDA-capable device is detected",
        fix="remove num-gpus: KubeRay takes the number from the container's nvidia.com/gpu limit",
        source="https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html#raystartparams",
        check=each_group(_too_many),
    ),
    Problem(
        "ray/gpus-unused",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.COSTS,
        title="Ray is told of fewer GPUs than its container has",
        why="Ray gives the others to no process: they cost money, and a job that asks for all of them waits forever",
        fix="remove num-gpus: KubeRay takes the number from the container's nvidia.com/gpu limit",
        source="https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html#raystartparams",
        check=each_group(_unused),
    ),
)
