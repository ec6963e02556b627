"""The GPUs with which Ray starts, and those that its container may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import Group, each_group
from postrender.finding import ERROR
from postrender.manifests.pods import GPU, mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import whole

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_NONE: Final = ("", "NoDevFiles")


def _count(group: Group) -> int:
    """Return the GPUs with which the operator starts Ray, 0 where they are not known."""
    own = "GPU" in mapping(group.spec.get("resources"))
    return 0 if own else whole(group.params.get("num-gpus", group.limit(GPU)))


def _hidden(group: Group) -> Found:
    for path, _, value in list(group.env(_VISIBLE))[-1:]:
        # What Kubernetes takes from elsewhere is not known.
        if "valueFrom" in mapping(group.ray["env"][path[-1]]) or "$(" in value:
            continue
        seen = 0 if value in _NONE else len(value.split(","))
        if seen < _count(group):
            listed = f"lists {seen} GPU{'' if seen == 1 else 's'} ({value})" if seen else "lists no GPU"
            yield path, f"{_VISIBLE} of {group.title} {listed}, and Ray starts with {_count(group)}"


RULES = (
    Problem(
        "ray/gpus-hidden",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_START,
        title="CUDA_VISIBLE_DEVICES lists fewer GPUs than Ray starts with",
        why="Ray refuses to start: Attempting to start raylet with 8 GPU, but …; the pod restarts again and again",
        fix="remove the variable: the pod sees the GPUs that it requests, and Ray gives each process its own",
        source="ray/_private/resource_and_label_spec.py:353 at v2.55.1",
        check=each_group(_hidden),
    ),
)
