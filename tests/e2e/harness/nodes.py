"""Fake nodes made from the accelerator profiles, and one kind of node without GPUs for heads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.kube import Manifest

# What daemon sets and sidecars would have: the nodes offer a little more than one worker asks for.
MARGIN_CORES = 6
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


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
        """The names of the networks that a node of this machine has beside the pod network."""
        return [interface["network"] for interface in self.values["interfaces"].values()]


def read_profiles(folder: Path) -> dict[str, Profile]:
    """Read values/accelerators/*.yaml by file name."""
    read = {file.stem: yaml.safe_load(file.read_text())["accelerator"] for file in sorted(folder.glob("*.yaml"))}
    return {name: Profile(name, values) for name, values in read.items()}


def gpu_node(profile: Profile, number: int) -> Manifest:
    """Describe one machine: its GPUs, networks, label and taint, and room for exactly one worker."""
    worker = profile.values["worker"]
    resources = {
        "cpu": str(int(worker["cpu"]) + MARGIN_CORES),
        "memory": with_margin(worker["memory"]),
        "ephemeral-storage": with_margin(worker["ephemeralStorage"]),
        "pods": "110",
        "nvidia.com/gpu": str(profile.values["gpusPerNode"]),
        **{f"networking.gke.io.networks/{network}": "1" for network in profile.networks},
        **profile.values.get("resources", {}),
    }
    labels = {
        "cloud.google.com/gke-gpu-driver-version": "latest",
        "node.kubernetes.io/instance-type": profile.values["machineType"],
        "cloud.google.com/gce-topology-block": f"{profile.name}-block",
        "cloud.google.com/gce-topology-subblock": f"{profile.name}-subblock-{number // 2}",
        "cloud.google.com/gce-topology-host": f"{profile.name}-host-{number}",
        **profile.labels,
    }
    return node(f"{profile.name}-{number}", labels, resources, taints=[TAINT])


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


def with_margin(quantity: str) -> str:
    """Add a twentieth to a quantity in Gi."""
    assert quantity.endswith("Gi"), f"expected a quantity in Gi, got {quantity}"
    return f"{int(int(quantity.removesuffix('Gi')) * 1.05)}Gi"
