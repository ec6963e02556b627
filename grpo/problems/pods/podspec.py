"""Pods as rules see them: containers with their paths, volumes, shell scripts; and adapters for checks.

A topic's check gets one pod and yields paths relative to its object, each with what was found there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from postrender.gate import environment
from postrender.manifests.pods import gpus, machines, mapping, requested, sequence
from postrender.values.profiles import INTERFACES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postrender.finding import Finding
    from postrender.gate.environment import Variable
    from postrender.gate.manifests import Item, Manifests
    from postrender.manifests.pods import Path, Pod
    from postrender.values.profiles import Machine

    Found = Iterator[tuple[Path, str]]
    Check = Callable[[Manifests], Iterator[Finding]]

# Kinds whose pods work together, on whatever nodes they run.
_TOGETHER: Final = ("RayCluster", "RayJob", "RayService", "JobSet", "LeaderWorkerSet", "Job")
_PLUGIN: Final = "/home/kubernetes/bin/gib"


def _uncommented(script: str) -> str:
    """Return a script without its comment lines."""
    if "#" not in script:
        return script
    return "\n".join(line for line in script.split("\n") if not line.lstrip().startswith("#"))


class Container:
    """One container: `path` leads to the container from the top of the object, `init` is true for init containers."""

    __slots__ = ("_env", "_pod", "_variables", "init", "path", "spec")

    def __init__(self, path: Path, spec: dict[str, Any], pod: PodView, *, init: bool) -> None:
        self.path = path
        self.spec = spec
        self.init = init
        self._pod = pod
        self._env: list[tuple[Path, str, dict[str, Any]]] | None = None
        self._variables: list[Variable] | None = None

    @property
    def name(self) -> str:
        """Return the container's name for messages."""
        return str(self.spec.get("name", ""))

    def env(self) -> list[tuple[Path, str, dict[str, Any]]]:
        """Return each variable's path, name and entry."""
        if self._env is None:
            entries = enumerate(map(mapping, sequence(self.spec.get("env"))))
            self._env = [((*self.path, "env", at), str(each.get("name", "")), each) for at, each in entries]
        return self._env

    def variables(self) -> list[Variable]:
        """Return the variables, those of ConfigMaps in the stream too, with paths from the top of the object."""
        if self._variables is None:
            found = environment.variables(self._pod.manifests, self._pod.item, self.spec)
            self._variables = [each._replace(path=(*self.path, *each.path)) for each in found]
        return self._variables

    @property
    def has_all_variables(self) -> bool:
        """Return whether all its variables are in the stream."""
        return environment.is_complete(self._pod.manifests, self._pod.item, self.spec)

    def value(self, name: str) -> str | None:
        """Return a variable's value: an empty text if it is not known, None if there is no such variable."""
        found = [each.value for each in self.variables() if each.name == name]
        return found[-1] or "" if found else None

    def scripts(self) -> Iterator[tuple[Path, str]]:
        """Yield each shell script of the container, without comments, with its path."""
        for key in ("command", "args"):
            for number, word in enumerate(sequence(self.spec.get(key))):
                if isinstance(word, str):
                    yield (*self.path, key, number), _uncommented(word)

    @property
    def script(self) -> str:
        """Return all shell scripts of the container as one text."""
        return "\n".join(text for _, text in self.scripts())

    def mounts(self) -> dict[str, dict[str, Any]]:
        """Return the mounts by mount path."""
        found = map(mapping, sequence(self.spec.get("volumeMounts")))
        return {str(each.get("mountPath", "")).rstrip("/"): each for each in found}

    @property
    def gpus(self) -> int:
        """Return how many GPUs the container requests."""
        return gpus(self.spec)

    @property
    def requested(self) -> dict[str, Any]:
        """Return the resource amounts that the container requests."""
        return {name: self.spec["resources"][part][name] for name, part in requested(self.spec).items()}

    def path_of_resource(self, name: str) -> Path:
        """Return the path of the amount that the container requests of a resource."""
        return (*self.path, "resources", requested(self.spec)[name], name)


class PodView:
    """One pod template with its object.

    `wired`: other rules compare the pod with the values. `trains`: the pod has GPUs or belongs to a Ray cluster.
    """

    __slots__ = ("_containers", "_machines", "item", "manifests", "pod", "spec", "trains", "wired")

    def __init__(self, manifests: Manifests, item: Item, pod: Pod, *, wired: bool) -> None:
        self.manifests = manifests
        self.item = item
        self.pod = pod
        self.wired = wired
        self.spec = pod.spec
        self.trains = pod.ray or pod.gpu_container()[1] > 0
        self._containers: list[Container] | None = None
        self._machines: list[Machine] | None = None

    @property
    def annotations(self) -> dict[str, Any]:
        """Return the pods' annotations."""
        return mapping(mapping(self.pod.template.get("metadata")).get("annotations"))

    def path(self, *below: str | int) -> Path:
        """Return a path below the pod's spec, from the top of the object."""
        return (*self.pod.path, "spec", *below)

    def annotation(self, name: str) -> Path:
        """Return an annotation's path."""
        return (*self.pod.path, "metadata", "annotations", name)

    def containers(self) -> list[Container]:
        """Return all containers, init containers first."""
        if self._containers is None:
            self._containers = [
                Container(self.path(key, number), each, self, init=key == "initContainers")
                for key in ("initContainers", "containers")
                for number, each in enumerate(sequence(self.spec.get(key)))
                if isinstance(each, dict)
            ]
        return self._containers

    def main(self) -> Container | None:
        """Return the container with the GPUs; in a Ray pod without GPUs, the Ray container."""
        running = [each for each in self.containers() if not each.init]
        most = max((each.gpus for each in running), default=0)
        return next((each for each in running if each.gpus == most and (most or self.pod.ray)), None)

    def volumes(self) -> Iterator[tuple[Path, str, dict[str, Any]]]:
        """Yield each volume's path, name and entry."""
        for number, each in enumerate(map(mapping, sequence(self.spec.get("volumes")))):
            yield self.path("volumes", number), str(each.get("name", "")), each

    def tolerates(self, key: str) -> bool:
        """Return whether a toleration matches this taint, or every taint."""
        for each in map(mapping, sequence(self.spec.get("tolerations"))):
            everything = not each.get("key") and each.get("operator") == "Exists"
            if everything or each.get("key") == key:
                return True
        return False

    def machines(self) -> list[Machine]:
        """Return the machines that the pod selects, if all of them have installed profiles."""
        if self._machines is None:
            self._machines = machines(self.spec)
        return self._machines

    @property
    def device_classes(self) -> set[str]:
        """Return the device classes of the claims that the pod creates from the stream's templates."""
        return self.manifests.device_classes(self.pod)

    @property
    def spans_nodes(self) -> bool:
        """Return whether the pod uses a complete node and is of a kind that communicates with other nodes."""
        known = self.machines()
        whole = bool(known) and all(self.pod.gpu_container()[1] == each.gpus for each in known)
        return whole and (self._has_plugin or (self.item.object.get("kind") in _TOGETHER and self.pod.count != 1))

    @property
    def uses_rdma(self) -> bool:
        """Return whether the pod spans nodes on machines whose RDMA interfaces are attached by annotations."""
        return self.spans_nodes and all(each.rdma for each in self.machines())

    @property
    def attached(self) -> bool:
        """Return whether the pod has interfaces besides the pod network's, or claims RDMA devices."""
        text = str(self.annotations.get(INTERFACES, ""))
        claims = map(mapping, sequence(self.spec.get("resourceClaims")))
        nvlink = self.manifests.once(_nvlink_claims)
        devices = any(str(each.get("resourceClaimTemplateName")) not in nvlink for each in claims)
        return text.count("interfaceName") > 1 or "rdma" in text or devices

    @property
    def _has_plugin(self) -> bool:
        return any(mapping(each.get("hostPath")).get("path") == _PLUGIN for _, _, each in self.volumes())


def _nvlink_claims(manifests: Manifests) -> set[str]:
    """Return the claim templates that ComputeDomains create: NVLink channels between nodes, not network devices."""
    specs = [mapping(item.object.get("spec")) for item in manifests.of_kinds(("ComputeDomain",))]
    templates = [mapping(mapping(spec.get("channel")).get("resourceClaimTemplate")) for spec in specs]
    return {str(each["name"]) for each in templates if "name" in each}


def judged(manifests: Manifests) -> list[PodView]:
    """Return all pods, one per template."""
    wired = {id(pod) for _, pod, _ in manifests.whole_pods()}
    return [PodView(manifests, item, pod, wired=id(pod) in wired) for item, pod in manifests.pods()]


def _training(manifests: Manifests) -> list[PodView]:
    return [pod for pod in manifests.once(judged) if pod.trains]


def each_pod(check: Callable[[PodView], Found], *, trains: bool = False) -> Check:
    """Turn a function over one pod into a check of all pods; with `trains`, only of pods with GPUs and Ray pods."""

    def run(manifests: Manifests) -> Iterator[Finding]:
        for pod in manifests.once(_training if trains else judged):
            for path, what in check(pod):
                yield pod.item.finding(path, what)

    return run


def each_container(check: Callable[[PodView, Container], Found], *, trains: bool = False) -> Check:
    """Turn a function over one container into a check of all containers."""
    return each_pod(lambda pod: (found for each in pod.containers() for found in check(pod, each)), trains=trains)


def objects(manifests: Manifests, *kinds: str) -> Iterator[tuple[Item, dict[str, Any]]]:
    """Yield the objects of these kinds with their specs."""
    for item in manifests.of_kinds(kinds):
        yield item, mapping(item.object.get("spec"))


def name_of(item: Item) -> str:
    """Return an object's name."""
    return str(mapping(item.object.get("metadata")).get("name", ""))
