"""Fake nodes of the profiles' machines, which offer what the vendors say, and nodes without GPUs for heads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness import allocatable
from harness.kube import Manifest

# Of what no source says how much a machine offers, a node has a little more than one worker asks for.
MARGIN_CORES = 6
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
# GKE's, of its machines with Arm processors.
ARM = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Profile:
    """One accelerator profile, as its values file says it."""

    name: str
    values: dict[str, Any]

    @property
    def labels(self) -> dict[str, str]:
        """The labels of a node of this machine, by which pods choose it or keep away from it."""
        present = self.values.get("gpuNodeLabel", "nvidia.com/gpu.present")
        processor = {"kubernetes.io/arch": self.values.get("architecture", "amd64")}
        return {present: "true", **processor, **self.values["nodeSelector"]}

    @property
    def networks(self) -> list[str]:
        """The names of the networks that a worker has beside the pod network."""
        return [interface["network"] for interface in self.values["interfaces"].values()]

    @property
    def is_google(self) -> bool:
        """Whether GKE sells the machine."""
        return "cloud.google.com/gke-accelerator" in self.values["nodeSelector"]

    @property
    def taints(self) -> list[dict[str, str]]:
        """The taints of a node of this machine."""
        return [TAINT, ARM] if self.is_google and self.values.get("architecture") == "arm64" else [TAINT]

    @property
    def wanted(self) -> dict[str, str]:
        """What a worker asks for."""
        worker = self.values["worker"]
        return {
            "cpu": worker["cpu"],
            "memory": worker["memory"],
            "ephemeral-storage": worker["ephemeralStorage"],
            "nvidia.com/gpu": str(self.values["gpusPerNode"]),
            **{f"networking.gke.io.networks/{network}": "1" for network in self.networks},
            **self.values.get("resources", {}),
        }

    @property
    def unsourced(self) -> set[str]:
        """The resources of a worker of which no source says how much the machine offers."""
        return {name for name, amount in self.wanted.items() if amount != "0"} - set(allocatable.offered(self.name))

    @property
    def offered(self) -> dict[str, str]:
        """What a node offers: what its vendor says, and otherwise a little more than one worker asks for."""
        wanted = {name: with_margin(name, self.wanted[name]) for name in self.unsourced}
        return {"pods": allocatable.PODS, **wanted, **allocatable.offered(self.name)}


def read_profiles(folder: Path) -> dict[str, Profile]:
    """Read values/accelerators/*.yaml by file name."""
    read = {file.stem: yaml.safe_load(file.read_text())["accelerator"] for file in sorted(folder.glob("*.yaml"))}
    return {name: Profile(name, values) for name, values in read.items()}


def gpu_node(profile: Profile, number: int) -> Manifest:
    """Describe one machine: what it offers, its labels and its taints."""
    labels = {
        "cloud.google.com/gke-gpu-driver-version": "latest",
        "node.kubernetes.io/instance-type": profile.values["machineType"],
        "cloud.google.com/gce-topology-block": f"{profile.name}-block",
        "cloud.google.com/gce-topology-subblock": f"{profile.name}-subblock-{number // 2}",
        "cloud.google.com/gce-topology-host": f"{profile.name}-host-{number}",
        **profile.labels,
    }
    return node(f"{profile.name}-{number}", labels, profile.offered, taints=profile.taints)


def cpu_node(number: int) -> Manifest:
    """Describe a machine without GPUs that has room for the head of the largest recipe."""
    resources = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1000Gi", "pods": "110"}
    labels = {"node.kubernetes.io/instance-type": "n2-highmem-64", "cloud.google.com/compute-class": "Balanced"}
    return node(f"cpu-{number}", labels, resources, taints=[])


def node(name: str, labels: dict[str, str], resources: dict[str, str], taints: list[dict[str, str]]) -> Manifest:
    """Describe a node that kwok keeps alive."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": taints},
        "status": {"allocatable": resources, "capacity": resources},
    }


def with_margin(resource: str, quantity: str) -> str:
    """Add some cores to processors, and a twentieth to a quantity in Gi; a count of devices is what it is."""
    if resource == "cpu":
        return str(int(quantity) + MARGIN_CORES)
    return f"{int(int(quantity.removesuffix('Gi')) * 1.05)}Gi" if quantity.endswith("Gi") else quantity
