"""KubeRay objects as rules see them: clusters, their groups, jobs; and adapters that turn functions into checks.

A topic's check gets one of them and yields paths with what was found there; the adapters handle streams and
findings.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from postrender.gate.manifests import Item
from postrender.manifests.pods import mapping, sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from postrender.finding import Finding
    from postrender.gate.manifests import Manifests
    from postrender.manifests.pods import Path
    from postrender.types import Json

    Found = Iterator[tuple[Path, str]]
    Check = Callable[[Manifests], Iterator[Finding]]

# The operator version that the charts pin; the rules are about this version.
OPERATOR: Final = "1.6"
# Where each kind keeps the spec of its cluster.
_CLUSTERS: Final = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}
# Where a RayCronJob keeps the spec of the jobs that it makes.
_TEMPLATE: Final = ("spec", "jobTemplate")
VALIDATION: Final = "kuberay/ray-operator/controllers/ray/utils/validation.go at v1.6.2"
# Why most of these rules exist.
EVENT_ONLY: Final = (
    "the operator creates no pods and reports it only in an event, long after helm install has succeeded"
)
# The operator parses numbers of 64 bits.
_VERSION: Final = re.compile(r"\s*v?(\d{1,18}(?:\.\d{1,18})+)(?!\d)")


class Group:
    """The head group or one worker group: `path` leads to its spec from the top of the object."""

    __slots__ = ("cluster", "head", "path", "spec")

    def __init__(self, cluster: Cluster, path: Path, spec: dict[str, Any], *, head: bool = False) -> None:
        self.cluster = cluster
        self.path = path
        self.spec = spec
        self.head = head

    @property
    def title(self) -> str:
        """Return the group's name for messages."""
        return "the head" if self.head else f"worker group {self.spec.get('groupName')}"

    @property
    def params(self) -> dict[str, Any]:
        """Return the parameters of `ray start`."""
        return mapping(self.spec.get("rayStartParams"))

    @property
    def template(self) -> dict[str, Any]:
        """Return the template of the group's pods."""
        return mapping(self.spec.get("template"))

    @property
    def pod(self) -> dict[str, Any]:
        """Return the spec of the group's pods."""
        return mapping(self.template.get("spec"))

    @property
    def ray(self) -> dict[str, Any]:
        """Return the container in which the operator starts Ray: the first one."""
        return mapping(next(iter(sequence(self.pod.get("containers"))), None))

    @property
    def ray_path(self) -> Path:
        """Return the path of the Ray container."""
        return (*self.path, "template", "spec", "containers", 0)

    def env(self, *names: str) -> Iterator[tuple[Path, str, str]]:
        """Yield path, name and value of each of the Ray container's variables with one of these names."""
        for number, each in enumerate(map(mapping, sequence(self.ray.get("env")))):
            if each.get("name") in names:
                value = each.get("value")
                yield (*self.ray_path, "env", number), str(each["name"]), "" if value is None else str(value)

    def limit(self, name: str) -> Json:
        """Return a resource limit of the Ray container."""
        return mapping(mapping(self.ray.get("resources")).get("limits")).get(name)


class Cluster:
    """A Ray cluster's spec, in a RayCluster, a job or a service; `path` leads to the spec."""

    __slots__ = ("head", "item", "path", "spec", "workers")

    def __init__(self, item: Item, path: Path, spec: dict[str, Any]) -> None:
        self.item = item
        self.path = path
        self.spec = spec
        self.head = Group(self, (*path, "headGroupSpec"), mapping(spec.get("headGroupSpec")), head=True)
        self.workers = [
            Group(self, (*path, "workerGroupSpecs", number), group)
            for number, group in enumerate(map(mapping, sequence(spec.get("workerGroupSpecs"))))
        ]

    @property
    def owner(self) -> str:
        """Return the kind of the object that contains the cluster."""
        return str(self.item.object["kind"])

    @property
    def annotations(self) -> dict[str, Any]:
        """Return the annotations that the operator reads for the cluster: those of the object that contains it."""
        return annotations_of(self.item)

    @property
    def autoscaler(self) -> dict[str, Any]:
        """Return the autoscaler options."""
        return mapping(self.spec.get("autoscalerOptions"))

    @property
    def scales(self) -> bool:
        """Return whether the autoscaler runs."""
        return self.spec.get("enableInTreeAutoscaling") is True

    def option(self, name: str) -> dict[str, Any]:
        """Return a section of the spec."""
        return mapping(self.spec.get(name))


class Job:
    """A RayJob; `cluster` is its rayClusterSpec, or None."""

    __slots__ = ("cluster", "item", "selector", "spec")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.spec = mapping(item.object.get("spec"))
        self.selector = mapping(self.spec.get("clusterSelector"))
        self.cluster = next(_clusters(item), None)

    @property
    def mode(self) -> str:
        """Return how the job is submitted."""
        mode = self.spec.get("submissionMode")
        # The default applies only if the field is absent, not to an empty text.
        return "K8sJobMode" if mode is None else str(mode)

    @property
    def submitter(self) -> dict[str, Any]:
        """Return the submitter container for K8sJobMode, as far as the job specifies it."""
        template = mapping(mapping(self.spec.get("submitterPodTemplate")).get("spec"))
        return mapping(next(iter(sequence(template.get("containers"))), None))

    @property
    def pasted(self) -> bool:
        """Return whether the operator pastes the job's texts into a command for the submitter's shell."""
        own = self.mode == "K8sJobMode" and sequence(self.submitter.get("command"))
        return self.mode in ("K8sJobMode", "SidecarMode") and not own

    @property
    def shuts_down(self) -> bool:
        """Return whether the cluster is deleted after the job has ended."""
        return self.spec.get("shutdownAfterJobFinishes") is True


def annotations_of(item: Item) -> dict[str, Any]:
    """Return an object's annotations."""
    return mapping(mapping(item.object.get("metadata")).get("annotations"))


def labels_of(item: Item) -> dict[str, Any]:
    """Return an object's labels."""
    return mapping(mapping(item.object.get("metadata")).get("labels"))


def number(value: Json) -> int | None:
    """Return an integer; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def version(text: Json) -> tuple[int, ...] | None:
    """Return a Ray version as numbers; None if the operator cannot parse it."""
    found = _VERSION.match(text) if isinstance(text, str) else None
    return tuple(map(int, found[1].split("."))) if found else None


def items(manifests: Manifests, *kinds: str) -> Iterator[Item]:
    """Yield the KubeRay objects of these kinds."""
    for item in manifests.of_kinds(kinds):
        if str(item.object.get("apiVersion", "")).startswith("ray.io/"):
            yield item


def _clusters(item: Item) -> Iterator[Cluster]:
    spec: Json = item.object
    path = _CLUSTERS[str(item.object["kind"])]
    for part in path:
        spec = mapping(spec).get(part)
    if isinstance(spec, dict):
        yield Cluster(item, path, spec)


def _run(manifests: Manifests, kinds: Collection[str], check: Callable[[Item], Found]) -> Iterator[Finding]:
    """Check objects of some kinds; for RayJobs, also those that the operator creates from RayCronJobs."""
    for item in items(manifests, *kinds, *(("RayCronJob",) if "RayJob" in kinds else ())):
        if item.object["kind"] != "RayCronJob":
            for path, what in check(item):
                yield item.finding(path, what)
        elif isinstance(mapping(item.object.get("spec")).get("jobTemplate"), dict):
            for path, what in check(_made(item)):
                yield item.finding((*_TEMPLATE, *path[1:]), what)


def _made(item: Item) -> Item:
    """Return the RayJob that a RayCronJob creates from its template; labels and annotations are not inherited."""
    made = {**item.object, "kind": "RayJob", "metadata": {}, "spec": item.object["spec"]["jobTemplate"]}
    return Item(item.document, item.path, made, ())


def each_of(*kinds: str) -> Callable[[Callable[[Item], Found]], Check]:
    """Return a decorator that turns a function over one object into a check of all objects of these kinds."""

    def make(check: Callable[[Item], Found]) -> Check:
        def run(manifests: Manifests) -> Iterator[Finding]:
            for item in items(manifests, *kinds):
                for path, what in check(item):
                    yield item.finding(path, what)

        return run

    return make


def each_cluster(check: Callable[[Cluster], Found]) -> Check:
    """Turn a function over one cluster into a check of all clusters, whatever object contains them."""
    return lambda manifests: _run(
        manifests, _CLUSTERS, lambda item: (found for cluster in _clusters(item) for found in check(cluster))
    )


def each_group(check: Callable[[Group], Found]) -> Check:
    """Turn a function over one group into a check of all heads and worker groups."""
    return each_cluster(lambda cluster: (found for group in (cluster.head, *cluster.workers) for found in check(group)))


def each_worker_group(check: Callable[[Group], Found]) -> Check:
    """Turn a function over one worker group into a check of all worker groups."""
    return each_cluster(lambda cluster: (found for group in cluster.workers for found in check(group)))


def each_job(check: Callable[[Job], Found]) -> Check:
    """Turn a function over one RayJob into a check of all RayJobs."""
    return lambda manifests: _run(manifests, ("RayJob",), lambda item: check(Job(item)))
