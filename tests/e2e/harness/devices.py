"""Network devices as the DRA drivers on GKE, EKS, AKS and OKE publish them (tests/e2e/devices.yaml)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.kube import Kube, Manifest

API = "resource.k8s.io/v1"
DRIVER = "dra.net"
GOOGLE = "mrdma.google.com"
AWS = "efa.networking.k8s.aws"
DRANET = "dranet.net"
# GKE labels nodes whose networks it has made.
PROFILE = "gke.networks.io/accelerator-network-profile"
FILE = Path(__file__).parents[1] / "devices.yaml"


@cache
def known() -> dict[str, Any]:
    """Read the classes, and the devices of each machine."""
    return dict(yaml.safe_load(FILE.read_text()))


def device_class(name: str, as_of: str = "") -> Manifest:
    """Describe a class as its vendor does, or with the devices of another class (`as_of`)."""
    selector = {"cel": {"expression": known()["classes"][as_of or name]}}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": [selector]}}


def machines_of(*clouds: str) -> list[str]:
    """Return the machines of some clouds, by the beginning of their names."""
    return [name for name in known()["machines"] if name.startswith(clouds)]


def devices_of(machine: str) -> list[Manifest]:
    """Describe the devices that the driver finds on a machine."""
    return [
        device(group, address, name)
        for group in known()["machines"][machine]
        for address, name in group["devices"].items()
    ]


def device(group: dict[str, Any], address: str, name: str) -> Manifest:
    """Describe one device: what its kind has, where it is plugged in, and its name."""
    kind = known()["kinds"][group["kind"]]
    attributes = {
        **kind["attributes"],
        kind["named"]: {"string": name},
        "dra.net/pciAddress": {"string": address},
        "dra.net/numaNode": {"int": group["numa"]},
    }
    for key, attribute in (
        ("root", "resource.kubernetes.io/pcieRoot"),
        ("subsystem", "dra.net/pciSubsystem"),
        ("network", "gce.dra.net/networkName"),
    ):
        if key in group:
            attributes[attribute] = {"string": group[key]}
    return {"name": f"pci-{address.replace(':', '-').replace('.', '-')}", "attributes": attributes}


def resource_slice(node: str, machine: str) -> Manifest:
    """Describe what the driver publishes of one node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices_of(machine)}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{node}-{DRIVER}"}, "spec": spec}


def named(machine: str, attribute: str) -> dict[str, Any]:
    """Return an attribute of each device of a machine that has it, by the device's name."""
    found = {each["name"]: each["attributes"].get(attribute) for each in devices_of(machine)}
    return {name: next(iter(value.values())) for name, value in found.items() if value is not None}


@contextmanager
def published(
    kube: Kube, machine: str, nodes: Sequence[str], labelled: Sequence[str] = (), name: str = GOOGLE
) -> Iterator[None]:
    """Let `nodes` publish the devices of a machine, and let GKE have made the networks of those that are `labelled`."""
    kube.create([device_class(name), *(resource_slice(node, machine) for node in nodes)])
    if labelled:
        kube.run("label", "node", *labelled, f"{PROFILE}=auto")
    try:
        yield
    finally:
        if labelled:
            kube.run("label", "node", *labelled, f"{PROFILE}-")
        for node in nodes:
            kube.delete("resourceslice", f"{node}-{DRIVER}")
        kube.delete("deviceclass", name)


def allocated(kube: Kube, namespace: str) -> list[Manifest]:
    """Return the claims of a namespace that have devices."""
    found = kube.list("resourceclaims", namespace)
    return [claim for claim in found if claim.get("status", {}).get("allocation")]


def results(claim: Manifest) -> list[str]:
    """Return the names of the devices that a claim has."""
    return [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]]
