"""Names of KubeRay's objects, which the operator extends for other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, each_group, each_of
from postrender.finding import ERROR
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found, Group
    from postrender.gate.manifests import Item

# Each job of a RayCronJob has its name with six more characters.
_LONGEST: Final = {"RayCluster": 53, "RayJob": 47, "RayService": 47, "RayCronJob": 41}
_EACH: Final = each_of(*_LONGEST)
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_IN_LABELS: Final = _LETTERS | frozenset("-0123456789")
_IN_PODS: Final = _IN_LABELS | {"."}


def _name(item: Item) -> str:
    return str(mapping(item.object.get("metadata")).get("name") or "")


def _long(item: Item) -> Found:
    name, most = _name(item), _LONGEST[item.object["kind"]]
    if len(name) > most:
        yield ("metadata", "name"), f"the name has {len(name)} characters, expected at most {most}"


def _odd(item: Item) -> Found:
    name = _name(item)
    if name and not (name[0] in _LETTERS and name[-1] != "-" and _IN_LABELS.issuperset(name)):
        yield ("metadata", "name"), "the name is no DNS label that starts with a letter"


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
    Problem(
        "ray/name-too-long",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the name of a KubeRay object is too long",
        why=EVENT_ONLY,
        fix="write at most 53 characters for a RayCluster, 47 for a RayJob or RayService, 41 for a RayCronJob",
        source=VALIDATION,
        check=_EACH(_long),
    ),
    Problem(
        "ray/name-not-a-label",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the name of a KubeRay object is not a DNS label that starts with a letter",
        why=EVENT_ONLY,
        fix="write lower-case letters, digits and dashes, a letter first and no dash last",
        source=VALIDATION,
        check=_EACH(_odd),
    ),
)
