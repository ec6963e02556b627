"""A container of Ray must see the GPUs with which Ray starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, Finding
from postrender.gate import environment
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import gpus, mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import mutations
from postrender.values.quantity import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path, Pod

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_NONE: Final = ("", "NoDevFiles")
_OVERWRITE: Final = "ray.io/overwrite-container-cmd"


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the list of GPUs with their number, in the first container of a pod: the one of Ray."""
    for item, pod in manifests.pods():
        if pod.ray and pod.containers():
            for path, what in _hidden(manifests, item, pod):
                yield item.finding(path, what)


def _hidden(manifests: Manifests, item: Item, pod: Pod) -> Iterator[tuple[Path, str]]:
    container = pod.containers()[0]
    listed = environment.effective(manifests, item, container, _VISIBLE).get(_VISIBLE)
    if listed is None or listed.value is None or _starts_ray_itself(item, pod):
        return
    group = mapping(mutations.at(item.object, pod.path[:-1]))
    params = mapping(group.get("rayStartParams"))
    # Where the group names its resources, Ray's GPUs are not known.
    count = 0 if "GPU" in mapping(group.get("resources")) else whole(params.get("num-gpus", gpus(container)))
    seen = 0 if listed.value in _NONE else len(listed.value.split(","))
    if seen < count:
        title = f"worker group {group.get('groupName')}" if pod.worker else "the head"
        has = f"lists {seen} GPU{'' if seen == 1 else 's'} ({listed.value})" if seen else "lists no GPU"
        what = f"{_VISIBLE} of {title} {has}, and Ray starts with {count}"
        yield (*pod.path, "spec", "containers", 0, *listed.path), what


def _starts_ray_itself(item: Item, pod: Pod) -> bool:
    """Return whether the pod's own command starts Ray: with how many GPUs, and what it lists before, is not known."""
    holders = [mapping(each.get("metadata")) for each in (item.object, pod.template)]
    return any(str(mapping(each.get("annotations")).get(_OVERWRITE)).lower() == "true" for each in holders)


RULE = Problem(
    "ray/gpus-hidden",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_START,
    title="CUDA_VISIBLE_DEVICES lists fewer GPUs than Ray starts with",
    why="Ray refuses to start: Attempting to start raylet with 8 GPU, but …; the pod restarts again and again",
    fix="remove the variable: the pod sees the GPUs that it requests, and Ray gives each process its own",
    source="ray/_private/resource_and_label_spec.py:353 at v2.55.1",
    check=check,
)
