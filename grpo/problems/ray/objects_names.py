"""Names of worker groups, after which the operator names pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import each_group
from postrender.finding import ERROR
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found, Group

_IN_PODS: Final = frozenset("abcdefghijklmnopqrstuvwxyz-.0123456789")


def _group(group: Group) -> Found:
    name = group.spec.get("groupName")
    if not group.head and isinstance(name, str) and not _IN_PODS.issuperset(name.lower()):
        yield (*group.path, "groupName"), f"groupName is {name}, and its pods are named after it"


RULES = (
    Problem(
        "ray/group-not-a-name",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="the name of a worker group cannot be part of a pod's name",
        why="KubeRay accepts the cluster, and the API server refuses each worker pod: none ever appears",
        fix="write letters, digits and dashes",
        source="ray-operator/controllers/ray/utils/util.go:201 at v1.6.2",
        check=each_group(_group),
    ),
)
