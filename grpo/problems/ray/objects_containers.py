"""The container in which the operator starts Ray, and how the operator changes it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import Cluster, Group, each_cluster, each_group
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import gpus, mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_POD: Final = "kuberay/ray-operator/controllers/ray/common/pod.go at v1.6.2"
_OVERWRITE: Final = "ray.io/overwrite-container-cmd"
# A word with one of these is a part of a shell line.
_SPECIAL: Final = re.compile(r"[\s;&|<>()`\"'\\]")
_SCRIPT_OPTION: Final = re.compile(r"-[a-z]*c")
# What keeps its meaning when the operator joins the words: quoted text, and operators at the end of a word.
_KEPT: Final = re.compile(r"'[^']*'|\"[^\"]*\"|[;&|]+$")
# Whoever writes 8G means 8Gi.
_SMALL_HEAD: Final = 8 * 1000**3
_SET: Final = (
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_CLOUD_INSTANCE_ID",
    "RAY_NODE_TYPE_NAME",
    "KUBERAY_GEN_RAY_START_CMD",
)
_SET_ON_WORKERS: Final = ("FQ_RAY_IP", "RAY_IP")
_LABELS: Final = ("ray.io/is-ray-node", "app.kubernetes.io/created-by")


def _words(group: Group) -> list[str]:
    return [str(word) for key in ("command", "args") for word in sequence(group.ray.get(key))]


def _overwrites(group: Group) -> bool:
    of_template = mapping(mapping(group.template.get("metadata")).get("annotations"))
    return any(str(each.get(_OVERWRITE, "")).lower() == "true" for each in (of_template, group.cluster.annotations))


def _joined(group: Group) -> Found:
    words = _words(group)
    if _overwrites(group) or "ray start" in " ".join(words) or len(words) <= 1:
        return
    if _loses(words):
        key = "command" if group.ray.get("command") else "args"
        yield (
            (*group.ray_path, key),
            f"{group.title} has a command of {len(words)} words, one of them with its own syntax",
        )


def _loses(words: list[str]) -> bool:
    """Return whether joining the words changes the program's arguments; words that form a shell line are unaffected."""
    program, *arguments = words
    if _SPECIAL.search(program):
        return False
    return any(
        _SPECIAL.search(_KEPT.sub("", word)) or (_SCRIPT_OPTION.fullmatch(before) and word.startswith("$"))
        for before, word in pairwise([program, *arguments])
    )


def _never_starts(group: Group) -> Found:
    words = " ".join(_words(group))
    if words and _overwrites(group) and not any(each in words for each in ("ray start", "KUBERAY_GEN_RAY_START_CMD")):
        key = "command" if group.ray.get("command") else "args"
        yield (*group.ray_path, key), f"{group.title} has its own command, which does not start Ray"


def _ports(cluster: Cluster) -> Found:
    head = cluster.head
    names = [mapping(port).get("name") for port in sequence(head.ray.get("ports"))]
    more = mapping(mapping(head.spec.get("headService")).get("spec")).get("ports")
    if names and "dashboard" not in [*names, *(mapping(port).get("name") for port in sequence(more))]:
        yield (*head.ray_path, "ports"), "the head declares ports, and none is called dashboard"


def _memory(group: Group) -> Found:
    given = group.params.get("memory") or mapping(group.spec.get("resources")).get("memory")
    if group.ray and group.limit("memory") is None and not given:
        yield (*group.ray_path, "resources"), f"{group.title} has no memory limit"


def _small(cluster: Cluster) -> Found:
    if not any(gpus(group.ray) for group in (cluster.head, *cluster.workers)):
        return
    limit = cluster.head.limit("memory")
    size = quantity(limit) if limit is not None else None
    if size is not None and size < _SMALL_HEAD:
        yield (*cluster.head.ray_path, "resources", "limits", "memory"), f"the head has {limit} of memory"


def _variables(group: Group) -> Found:
    for path, name, _ in group.env(*_SET, *(() if group.head else _SET_ON_WORKERS)):
        yield path, f"{group.title} sets the variable {name}"


def _labelled(group: Group) -> Found:
    given = mapping(mapping(group.template.get("metadata")).get("labels"))
    for name in _LABELS:
        if name in given:
            path = (*group.path, "template", "metadata", "labels", name)
            yield path, f"{group.title} sets the label {name}"


RULES = (
    Problem(
        "ray/command-joined",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.EXPOSES,
        title="the operator joins the words of a command, but does not quote them",
        why="bash -c 'a; b' becomes bash -c a; b: a bare set prints all secrets to the log, and set -e has no effect",
        fix="annotate with ray.io/overwrite-container-cmd: true and end with eval $KUBERAY_GEN_RAY_START_CMD",
        source=_POD,
        check=each_group(_joined),
    ),
    Problem(
        "ray/command-never-starts-ray",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_START,
        title="a pod of Ray has a command that does not start Ray",
        why="with ray.io/overwrite-container-cmd the pod runs only this command, and its probes kill it",
        fix="end the command with eval $KUBERAY_GEN_RAY_START_CMD, or remove the annotation",
        source=_POD,
        check=each_group(_never_starts),
    ),
    Problem(
        "ray/dashboard-port-missing",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_START,
        title="the head declares ports, but none for the dashboard",
        why="its Service then has no port of that name, and no RayJob can ever be submitted",
        fix="add port 8265 with the name dashboard, or declare no ports: the operator then uses its defaults",
        source="kuberay/ray-operator/controllers/ray/utils/util.go at v1.6.2",
        check=each_cluster(_ports),
    ),
    Problem(
        "ray/memory-without-limit",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.LATER,
        title="a container of Ray has no memory limit",
        why="Ray then schedules with the memory of the whole node, and /dev/shm has no size",
        fix="write resources.limits.memory",
        source=_POD,
        check=each_group(_memory),
    ),
    Problem(
        "ray/small-head",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.LATER,
        title="the head of a cluster with GPUs has less than 8G of memory",
        why="Ray's control store and the driver are killed there under load, and the whole job is lost",
        fix="give the head 8Gi or more; NVIDIA gives it 200Gi for 64 nodes",
        source="https://github.com/ray-project/kuberay/issues/4287",
        check=each_cluster(_small),
    ),
    Problem(
        "ray/variable-of-operator",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a container of Ray sets a variable that the operator sets too",
        why="the operator appends its own variable, so the name is there twice and the operator's value wins",
        fix="remove the variable, or give it another name",
        source=_POD,
        check=each_group(_variables),
    ),
    Problem(
        "ray/label-of-operator",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.PENDING,
        title="a pod template sets a label by which pods of Ray are found",
        why="the operator does not refuse it, and Services and tools no longer find the pods",
        fix="remove the label",
        source=_POD,
        check=each_group(_labelled),
    ),
)
