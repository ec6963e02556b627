"""Find the pod templates in Kubernetes, KubeRay, JobSet and LeaderWorkerSet objects.

A path is a tuple of keys and list positions below the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from postrender.types import Json
from postrender.values import mutations, profiles
from postrender.values.profiles import Machine
from postrender.values.quantity import whole

Path = tuple[str | int, ...]

GPU: Final = "nvidia.com/gpu"
# Every entry of a list or a map.
EACH: Final = "*"
# The paths of the pod templates in each kind.
_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "Pod": ("",),
    "PodTemplate": ("template",),
    "Deployment": ("spec.template",),
    "ReplicaSet": ("spec.template",),
    "ReplicationController": ("spec.template",),
    "StatefulSet": ("spec.template",),
    "DaemonSet": ("spec.template",),
    "Job": ("spec.template",),
    "CronJob": ("spec.jobTemplate.spec.template",),
    "JobSet": ("spec.replicatedJobs.*.template.spec.template",),
    "LeaderWorkerSet": ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
    "RayCluster": ("spec.headGroupSpec.template", "spec.workerGroupSpecs.*.template"),
    "RayJob": ("spec.rayClusterSpec.headGroupSpec.template", "spec.rayClusterSpec.workerGroupSpecs.*.template"),
    "RayCronJob": (
        "spec.jobTemplate.rayClusterSpec.headGroupSpec.template",
        "spec.jobTemplate.rayClusterSpec.workerGroupSpecs.*.template",
    ),
    "RayService": (
        "spec.rayClusterConfig.headGroupSpec.template",
        "spec.rayClusterConfig.workerGroupSpecs.*.template",
    ),
}
RAY: Final = ("RayCluster", "RayJob", "RayCronJob", "RayService")
# Objects that contain other objects; ResourceList is the input of a kustomize function.
HOLDERS: Final = ("List", "ResourceList")


def is_known(kind: str) -> bool:
    """Return whether it is known where this kind has its pod templates."""
    return kind in _TEMPLATES or kind in HOLDERS


def mapping(value: Json) -> dict[str, Any]:
    """Return a map unchanged; return an empty map for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: Json) -> list[Json]:
    """Return a list unchanged; return an empty list for anything else."""
    return value if isinstance(value, list) else []


class Pod:
    """One pod template, or a Pod itself: `template` has the metadata and spec, `path` leads to the template.

    `worker` is true for a Ray cluster's worker group, `ray` for any of its pods. `count` is the number of pods created
    from the template, or None if the object does not set it.
    """

    def __init__(self, path: Path, template: dict[str, Any], *, ray: bool, worker: bool, count: int | None) -> None:
        self.path = path
        self.template = template
        self.ray = ray
        self.worker = worker
        self.count = count

    @property
    def spec(self) -> dict[str, Any]:
        """Return the pod's spec."""
        return mapping(self.template.get("spec"))

    def containers(self) -> list[dict[str, Any]]:
        """Return the containers that are maps."""
        return [each for each in sequence(self.spec.get("containers")) if isinstance(each, dict)]

    def gpu_container(self) -> tuple[int, int]:
        """Return the position and the GPU count of the container with the most GPUs; (0, 0) if none has GPUs."""
        counted = [(gpus(each), -at) for at, each in enumerate(self.containers())]
        most, at = max(counted, default=(0, 0))
        return (-at, most) if most > 0 else (0, 0)

    def gpu_containers(self) -> list[int]:
        """Return the positions of the containers with GPUs; in a Ray pod without GPUs, position 0."""
        found = [at for at, each in enumerate(self.containers()) if gpus(each)]
        return found or ([0] if self.ray and self.containers() else [])


def gpus(container: Mapping[str, Any]) -> int:
    """Return a container's GPU limit; 0 if it has no limit that Kubernetes accepts."""
    return whole(mapping(mapping(container.get("resources")).get("limits")).get(GPU))


def requested(container: Mapping[str, Any]) -> dict[str, str]:
    """Return a container's requested resources, each with the section that sets the amount: limits, or requests."""
    resources = mapping(container.get("resources"))
    return {name: part for part in ("requests", "limits") for name in mapping(resources.get(part))}


def machines(spec: Mapping[str, Any]) -> list[Machine]:
    """Return the machines that a pod selects, if all of them have installed profiles.

    Labels that only name the GPU are ignored, because machines with other networks have them too.
    """
    if not spec.get("nodeSelector") and not spec.get("affinity"):
        return []
    known = [label for label in profiles.labels() if not profiles.names_gpu(label)]
    return profiles.chosen({label: selected(spec, label) for label in known})


def names(chosen: Iterable[Machine]) -> str:
    """Return the machines' node labels, for messages."""
    return " or ".join(sorted({machine.label for machine in chosen}))


def selected(spec: Mapping[str, Any], label: str) -> set[str]:
    """Return the values of a node label that a pod selects by its node selector, or else by its required affinity."""
    chosen = mapping(spec.get("nodeSelector")).get(label)
    if chosen is not None:
        return {str(chosen)}
    return _affinity(spec, label, "In")


def _affinity(spec: Mapping[str, Any], label: str, operator: str) -> set[str]:
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    found: set[str] = set()
    for term in sequence(required.get("nodeSelectorTerms")):
        for each in map(mapping, sequence(mapping(term).get("matchExpressions"))):
            if each.get("key") == label and each.get("operator") == operator:
                found |= set(map(str, sequence(each.get("values"))))
    return found


def excluded(spec: Mapping[str, Any], label: str) -> set[str]:
    """Return the values of a node label that a pod's required affinity forbids."""
    return _affinity(spec, label, "NotIn")


def objects(document: Json, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a document's objects with their paths: the document itself, or a List's items.

    An item that is not an object is yielded as an empty map.
    """
    if not isinstance(document, dict):
        return
    kind, items = str(document.get("kind")), document.get("items")
    if isinstance(items, list) and (kind in HOLDERS or kind.endswith("List")):
        for at, item in enumerate(items):
            # The items of a typed list (PodList) have no kind; such a list is never installed.
            if kind in HOLDERS or "kind" in mapping(item):
                yield from objects(mapping(item), (*path, "items", at))
    else:
        yield path, document


def pods(item: Mapping[str, Any], more: Mapping[str, tuple[str, ...]] | None = None) -> list[Pod]:
    """Return an object's pod templates; `more` maps further kinds to the paths of their templates."""
    kind = str(item.get("kind"))
    found = []
    for dotted in dict.fromkeys((*_TEMPLATES.get(kind, ()), *(more or {}).get(kind, ()))):
        for path, template in _walk(item, tuple(dotted.split(".")) if dotted else ()):
            worker = kind in RAY and "workerGroupSpecs" in path
            found.append(Pod(path, template, ray=kind in RAY, worker=worker, count=_count(kind, item, path)))
    return found


def strays(item: Json, known: Iterable[Pod]) -> list[tuple[Path, int]]:
    """Return the paths and GPU counts of GPU pods that are not `known`, as in third-party kinds."""
    where = {(*pod.path, "spec") for pod in known}
    found: list[tuple[Path, int]] = []
    # An alias repeats a value, and what aliases repeat may be large.
    seen: set[int] = set()
    stack: list[tuple[Path, Json]] = [((), item)]
    while stack:
        path, value = stack.pop()
        if id(value) in seen or not isinstance(value, (dict, list)):
            continue
        seen.add(id(value))
        entries = list(value.items() if isinstance(value, dict) else enumerate(value))
        stack += [((*path, key), each) for key, each in reversed(entries)]
        containers = map(mapping, sequence(mapping(value).get("containers")))
        if path not in where and (count := sum(map(gpus, containers))):
            found.append((path[:-1] if path[-1:] == ("spec",) else path, count))
    return found


def _walk(value: Json, parts: tuple[str, ...], path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    if not parts:
        if isinstance(value, dict):
            yield path, value
        return
    first, rest = parts[0], parts[1:]
    if first != EACH:
        yield from _walk(mapping(value).get(first), rest, (*path, first))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _walk(each, rest, (*path, at))
    else:
        for key, each in mapping(value).items():
            yield from _walk(each, rest, (*path, key))


def _count(kind: str, item: Mapping[str, Any], path: Path) -> int | None:
    """Return how many pods the object creates from one template; None if it does not set the number."""
    if kind in RAY:
        at = next(at for at, part in enumerate(path) if part in ("headGroupSpec", "workerGroupSpecs"))
        if path[at] == "headGroupSpec":
            return 1
        scales = mapping(mutations.at(item, path[:at])).get("enableInTreeAutoscaling")
        return None if scales else _product(mapping(mutations.at(item, path[:-1])), ("replicas", "numOfHosts"))
    spec = mapping(item.get("spec"))
    if kind == "JobSet":
        job = mapping(mutations.at(item, path[:3]))
        inner = mapping(mapping(job.get("template")).get("spec"))
        return _times(_product(job, ("replicas",)), _product(inner, ("parallelism",)))
    if kind == "LeaderWorkerSet":
        size = mapping(spec.get("leaderWorkerTemplate")).get("size", 1)
        size = size if isinstance(size, int) else None
        has_leader = bool(mapping(spec.get("leaderWorkerTemplate")).get("leaderTemplate"))
        each = 1 if path[-1] == "leaderTemplate" else size if not has_leader or size is None else size - 1
        return _times(_product(spec, ("replicas",)), each)
    if kind == "Job" and isinstance(spec.get("completions"), int):
        count = _product(spec, ("parallelism",))
        return None if count is None else min(count, spec["completions"])
    keys = {"Deployment": "replicas", "StatefulSet": "replicas", "ReplicaSet": "replicas", "Job": "parallelism"}
    if kind == "Pod":
        return 1
    return _product(spec, (keys[kind],)) if kind in keys else None


def _product(item: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    result: int | None = 1
    for key in keys:
        value = item.get(key)
        result = _times(result, 1 if value is None else value if isinstance(value, int) else None)
    return result


def _times(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left * right
