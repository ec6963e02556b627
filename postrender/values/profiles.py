"""Look up machines in the installed accelerator profiles, for pods that select a machine other than the values'."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from postrender import paths
from postrender.yaml import reader

# The part of a profile that each network mode needs.
_MODES: Final = {"multiNetwork": "interfaces", "dranet": "claims", "devices": "resources"}
ACCELERATOR: Final = "cloud.google.com/gke-accelerator"
# GKE's annotations in manifests that rules judge; those of pods that are wired come from platform.keys.
INTERFACES: Final = "networking.gke.io/interfaces"
DEFAULT_INTERFACE: Final = "networking.gke.io/default-interface"
# Labels of the GPU's maker, written by its feature discovery on nodes of every cloud.
_OF_GPU: Final = "nvidia.com/"


class Machine(NamedTuple):
    """Facts of one profile that rules compare.

    `type` is the cloud's name of the machine. `rdma` counts the `interfaces` that NCCL uses, `net` is NCCL's name of
    the network. `cpu` and `memory` are the quantities that a node has for pods, empty if the profile does not give
    them; `worker` is what a worker with all GPUs of a node asks for. `refuses` lists values that do not work on the
    machine (spot, dranet …), `modes` the network modes with RDMA that do. `labels` are those of its nodes, `resources`
    what a device plugin offers besides GPUs, `hca` the network devices that NCCL is told to use, `socket` the
    interface of its sockets.
    """

    name: str
    type: str
    gpus: int
    net: str
    tuner: str
    arch: str
    interfaces: int
    rdma: int
    cpu: str
    memory: str
    worker: tuple[str, str]
    refuses: frozenset[str]
    modes: frozenset[str]
    labels: tuple[tuple[str, str], ...]
    resources: frozenset[str]
    hca: str
    socket: str

    @property
    def label(self) -> str:
        """Return the values of the machine's node labels, for messages."""
        return ", ".join(value for _, value in self.labels)

    @property
    def is_google(self) -> bool:
        """Return whether it is a GKE machine."""
        return "kubernetes" in self.refuses


def modes(accelerator: Mapping[str, Any]) -> list[str]:
    """Return the network modes with RDMA that a profile's `accelerator` section offers."""
    refused = accelerator.get("refuses") or {}
    return [mode for mode, key in _MODES.items() if accelerator.get(key) and mode not in refused]


@cache
def machines() -> tuple[Machine, ...]:
    """Return the machines of all installed profiles."""
    files = map(paths.accelerator, paths.accelerators())
    return tuple(_machine(reader.load_values(file).plain()["accelerator"]) for file in files)


@cache
def devices(machine_type: str) -> Mapping[str, int]:
    """Return the resources besides GPUs that the installed profile for a machine type requests, with their counts."""
    for file in map(paths.accelerator, paths.accelerators()):
        accelerator = reader.load_values(file).plain()["accelerator"]
        if machine_type and accelerator.get("machineType") == machine_type:
            return {name: int(count) for name, count in (accelerator.get("resources") or {}).items()}
    return {}


def is_flag(count: float, gpus: int) -> bool:
    """Return whether a machine's request of a device plugin says yes or no: one gives all devices of its node."""
    return count == 1 and gpus > 1


def names_gpu(label: str) -> bool:
    """Return whether a node label names only the GPU, not the cloud whose machine it is in."""
    return label.startswith(_OF_GPU)


@cache
def labels(gpu: str = "") -> Mapping[str, set[str]]:
    """Return the values of each node label by which profiles select machines, without those that only name `gpu`."""
    found: dict[str, set[str]] = {}
    for machine in machines():
        for label, value in machine.labels:
            if machine.name != gpu or not names_gpu(label):
                found.setdefault(label, set()).add(value)
    return found


def names() -> set[str]:
    """Return the machines' names; the same machine in several clouds has a single name."""
    return {machine.name for machine in machines()}


def chosen(asked: Mapping[str, Collection[str]]) -> list[Machine]:
    """Return the machines that node labels select, each label with one or more values.

    The result is empty if a label that selects a machine also has a value that no profile knows.
    """
    found = [
        each for each in machines() if each.labels and all(value in asked.get(key, ()) for key, value in each.labels)
    ]
    known: dict[str, set[str]] = {}
    for machine in found:
        for key, value in machine.labels:
            known.setdefault(key, set()).add(value)
    return found if all(set(asked[key]) <= values for key, values in known.items()) else []


def _machine(accelerator: Mapping[str, Any]) -> Machine:
    interfaces, node = accelerator.get("interfaces") or {}, accelerator.get("node") or {}
    nccl, worker = accelerator.get("nccl") or {}, accelerator.get("worker") or {}
    return Machine(
        name=str(accelerator["name"]),
        type=str(accelerator.get("machineType") or ""),
        gpus=int(accelerator["gpusPerNode"]),
        net=str(nccl.get("net") or ""),
        tuner=str(nccl.get("tunerConfig") or ""),
        arch=str(accelerator.get("architecture") or "amd64"),
        interfaces=len(interfaces),
        rdma=sum(each.get("deviceMode") == "RDMA" for each in interfaces.values()),
        cpu=str(node.get("cpu") or ""),
        memory=str(node.get("memory") or ""),
        worker=(str(worker.get("cpu") or ""), str(worker.get("memory") or "")),
        refuses=frozenset(accelerator.get("refuses") or ()),
        modes=frozenset(modes(accelerator)),
        labels=tuple((accelerator.get("nodeSelector") or {}).items()),
        resources=frozenset(accelerator.get("resources") or ()),
        hca=str((nccl.get("env") or {}).get("NCCL_IB_HCA") or ""),
        socket=str(nccl.get("socketInterface") or ""),
    )
