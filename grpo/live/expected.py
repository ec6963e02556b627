"""What a stack asks the cluster for: the objects that its charts render, and the names in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from grpo.helm.engines import Engine
from grpo.helm.stack import Stack
from grpo.lint.linter import described_run
from grpo.live.objects import name_of
from grpo.manifests.needs import needed
from grpo.manifests.needs.needed import Need
from grpo.plan import host, planner
from grpo.values import gke_versions
from postrender.manifests import pods
from postrender.manifests.pods import mapping
from postrender.values import merge, mutations
from postrender.values.merge import Values
from postrender.yaml.reader import Node

# Where the frameworks' configurations name the model, and what a name on the hub looks like: a path is no name.
_MODELS: Final = ("job.config.policy.model_name", "job.config.actor_rollout_ref.model.path")
_MODEL: Final = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Expected:
    """The rendered stack. `releases` has each layer's release name, `objects` what the charts render for it."""

    name: str
    namespace: str
    releases: dict[str, str]
    objects: dict[str, list[dict[str, Any]]] = field(repr=False)
    run_directory: str = ""
    # The place of each value in the files, by its dotted path, and the value where it is a name.
    places: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    # The models of the hub, by the value that names each.
    models: dict[str, str] = field(default_factory=dict)
    # What grpo plan says about the memory of a node; a bundle has it too.
    host: dict[str, Any] = field(default_factory=dict)
    # What the values ask of GKE: value, what it is, and versions (values/gke_versions.py).
    gke: list[Sequence[Any]] = field(default_factory=list)
    # The machine's RDMA devices, whatever network.mode is: resources of a device plugin, and classes of a driver.
    devices: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind, of all layers."""
        return [each for objects in self.objects.values() for each in objects if each.get("kind") == kind]

    def all(self) -> list[dict[str, Any]]:
        """Return the objects of all layers."""
        return [each for objects in self.objects.values() for each in objects]

    def needs(self, kind: str) -> list[Need]:
        """Return what the objects name of a kind and no chart makes, in the namespace of the stack or in none."""
        found = needed.needs(self.all(), self.namespace)
        return [each for each in found if each.kind == kind and each.namespace in ("", self.namespace)]

    @property
    def job(self) -> str:
        """Return the name of the RayJob."""
        return next((name_of(each) for each in self.of_kind("RayJob")), "")

    @property
    def cluster(self) -> str:
        """Return the name of the RayCluster; empty where KubeRay names it, because the job brings its own."""
        return next((name_of(each) for each in self.of_kind("RayCluster")), "")

    @property
    def owner(self) -> str:
        """Return the value of the label grpo-charts/owner on the pods of the cluster."""
        for _, pod in self.roles():
            return str(mapping(mapping(pod.template.get("metadata")).get("labels")).get("grpo-charts/owner", ""))
        return ""

    def roles(self) -> list[tuple[str, pods.Pod]]:
        """Return the pod templates of the Ray cluster with their roles: head, and the name of each worker group."""
        return [
            (str(mutations.at(item, pod.path[:-1]).get("groupName", "head")), pod)
            for item in (*self.of_kind("RayCluster"), *self.of_kind("RayJob"))
            for pod in pods.pods(item)
        ]

    def place(self, path: str) -> str:
        """Return where a value stands in the files, or the value above it; empty for one that no file has."""
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return self.places[path][1] if path else ""

    @property
    def gpus(self) -> int:
        """Return the GPUs that the cluster asks for."""
        return sum(pod.gpu_container()[1] * (pod.count or 0) for _, pod in self.roles())


def render(stack: Stack, engine: Engine, namespace: str) -> Expected:
    """Render the layers of a stack for a namespace; raise as Stack.render does."""
    layers = stack.layers()
    volume = stack.values.get("job.volume", "data")
    mount = stack.values.get(f"storage.{volume}.mountPath")
    run = stack.values.get("job.name")
    accelerator = mapping(stack.values.effective().get("accelerator"))
    return Expected(
        stack.name,
        namespace,
        {layer: stack.release(layer) for layer in layers},
        stack.objects(engine, layers, namespace),
        f"{mount}/runs/{run}" if mount and run else "",
        dict(_places(stack.values.root, "")),
        {path: str(name) for path in _MODELS if _MODEL.fullmatch(str(name := stack.values.get(path, "")))},
        _host_memory(stack.values),
        list(gke_versions.needs(merge.over_defaults(stack.values))),
        sorted(mapping(accelerator.get("resources"))),
        sorted({str(mapping(claim).get("deviceClass")) for claim in mapping(accelerator.get("claims")).values()}),
    )


def _places(node: Node, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the dotted path of each value below a node with its text and its place."""
    if path:
        is_name = isinstance(node.value, str) and path.endswith(".name")
        yield path, (str(node.value) if is_name else "", str(node.key_at))
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from _places(child, f"{path}.{key}" if path else str(key))


def _host_memory(values: Values) -> dict[str, Any]:
    """Return what `grpo plan` says of a node: verdict, peak, limit, what only one phase has; else `reason`, why not."""
    run = described_run(values)
    if run is None:
        return {"reason": "the values describe no run on a machine"}
    setup, reason = (found := planner.plan(run)).setup, found.reason
    if setup is None or setup.machine.host is None:
        return {"reason": reason or "the memory of a node is not known"}
    return {
        "verdict": host.verdict(setup),
        "peak": str(host.peak(setup)),
        "limit": str(setup.machine.host),
        "during": {phase: {item.name: str(item.fixed) for item in host.during(setup, phase)} for phase in host.PHASES},
    }
