"""What a stack requires from the cluster: the objects that its charts render, and the names in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo.cluster.objects import name_of
from grpo.manifests.needs import needed
from grpo.manifests.needs.needed import Need
from postrender.manifests import pods
from postrender.manifests.pods import mapping
from postrender.values import mutations


@dataclass(frozen=True)
class Expected:
    """The rendered stack: `releases` has each layer's release name, and `objects` what the charts render for it."""

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
        """Return the objects of one kind from all layers."""
        return [each for objects in self.objects.values() for each in objects if each.get("kind") == kind]

    def all(self) -> list[dict[str, Any]]:
        """Return the objects of all layers."""
        return [each for objects in self.objects.values() for each in objects]

    def needs(self, kind: str) -> list[Need]:
        """Return the references to objects of a kind that no chart creates, in the stack's namespace or in none."""
        found = needed.needs(self.all(), self.namespace)
        return [each for each in found if each.kind == kind and each.namespace in ("", self.namespace)]

    @property
    def job(self) -> str:
        """Return the RayJob's name."""
        return next((name_of(each) for each in self.of_kind("RayJob")), "")

    @property
    def cluster(self) -> str:
        """Return the RayCluster's name; empty if KubeRay chooses it, because the job creates the cluster itself."""
        return next((name_of(each) for each in self.of_kind("RayCluster")), "")

    @property
    def owner(self) -> str:
        """Return the value of the label grpo-charts/owner on the cluster's pods."""
        for _, pod in self.roles():
            return str(mapping(mapping(pod.template.get("metadata")).get("labels")).get("grpo-charts/owner", ""))
        return ""

    def roles(self) -> list[tuple[str, pods.Pod]]:
        """Return the Ray cluster's pod templates with their roles: head, or the worker group's name."""
        return [
            (str(mutations.at(item, pod.path[:-1]).get("groupName", "head")), pod)
            for item in (*self.of_kind("RayCluster"), *self.of_kind("RayJob"))
            for pod in pods.pods(item)
        ]

    def place(self, path: str) -> str:
        """Return where the files set a value, or else the nearest value above it; empty if no file sets either."""
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return self.places[path][1] if path else ""

    @property
    def gpus(self) -> int:
        """Return the number of GPUs that the cluster requests."""
        return sum(pod.gpu_container()[1] * (pod.count or 0) for _, pod in self.roles())
