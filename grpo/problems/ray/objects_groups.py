"""The specs of the head group and of each worker group."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, Group, each_group, number
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_IN_PARAMS: Final = ("num-cpus", "num-gpus", "memory", "resources")
_NAME: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)\Z")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_LONGEST_PREFIX: Final = 253
_RECREATE: Final = "Recreate"
# Helm's charts write their version into it.
_CHART: Final = "helm.sh/chart"


def _resources(group: Group) -> Found:
    given = [name for name in _IN_PARAMS if group.params.get(name)]
    if given and mapping(group.spec.get("resources")):
        what = f"{group.title} has resources, and {', '.join(given)} in rayStartParams"
        yield (*group.path, "resources"), what


def _param(group: Group) -> Found:
    if "labels" in group.params:
        yield (*group.path, "rayStartParams", "labels"), f"{group.title} has labels in rayStartParams"


def _labels(group: Group) -> Found:
    for key, value in mapping(group.spec.get("labels")).items():
        path = (*group.path, "labels", key)
        if not _is_key(key):
            yield path, f"{group.title} has the label {key}, which is not a valid label key"
        elif isinstance(value, str) and value and not _NAME.match(value):
            yield path, f"{group.title} has the label {key} with a value that is not valid for a label"


def _chart(group: Group) -> Found:
    cluster = group.cluster
    # The operator ignores the strategy in a job and in a service.
    if cluster.owner == "RayCluster" and cluster.option("upgradeStrategy").get("type") == _RECREATE:
        chart = mapping(mapping(group.template.get("metadata")).get("labels")).get(_CHART)
        if chart is not None:
            what = f"pods of {group.title} have the label {_CHART}: {chart}, and upgradeStrategy is {_RECREATE}"
            yield (*group.path, "template", "metadata", "labels", _CHART), what


def _deadline(group: Group) -> Found:
    seconds = number(group.pod.get("activeDeadlineSeconds"))
    if seconds is not None:
        what = f"pods of {group.title} end {seconds} seconds after their start, whatever runs in them"
        yield (*group.path, "template", "spec", "activeDeadlineSeconds"), what


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    fits = not slash or (bool(_PREFIX.match(prefix)) and len(prefix) <= _LONGEST_PREFIX)
    return fits and bool(_NAME.match(name))


RULES = (
    Problem(
        "ray/resources-twice",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a group sets Ray's resources both in resources and in rayStartParams",
        why=EVENT_ONLY,
        fix="write them into resources or into rayStartParams, not into both",
        source=VALIDATION,
        check=each_group(_resources),
    ),
    Problem(
        "ray/labels-in-start-params",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a group sets Ray's labels in rayStartParams",
        why=EVENT_ONLY,
        fix="write them into the group's own labels",
        source=VALIDATION,
        check=each_group(_param),
    ),
    Problem(
        "ray/group-label",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a group has a label that is not a valid Kubernetes label",
        why=EVENT_ONLY,
        fix="write up to 63 letters, digits, dashes, dots and underscores, with a letter or digit at both ends",
        source=VALIDATION,
        check=each_group(_labels),
    ),
    Problem(
        "ray/recreated-by-label",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.LATER,
        title="a pod template has the chart's version as a label, so each version recreates the cluster",
        why="the operator deletes all pods of the cluster when a pod template changes, and what ran there is lost",
        fix="leave the label out of the pod templates; the RayCluster may keep it",
        source="kuberay/ray-operator/controllers/ray/raycluster_controller.go at v1.6.2",
        check=each_group(_chart),
    ),
    Problem(
        "ray/pods-end",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.LATER,
        title="the pods of a cluster end after a fixed time",
        why="Kubernetes kills all pods of a group at about the same time, in the middle of what then runs there",
        fix="remove it; limit the steps of a training, or write activeDeadlineSeconds of a RayJob",
        source="kubernetes/pkg/kubelet/active_deadline.go at v1.34.0",
        check=each_group(_deadline),
    ),
)
