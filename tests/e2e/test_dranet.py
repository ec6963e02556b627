"""RDMA devices by DRA: a device class and one slice a node, allocated by the real scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness.kube import Kube, Manifest
from harness.stack import Stack
from harness.waiting import until

API = "resource.k8s.io/v1"
DRIVER = "dra.net"
# Two of the four H200 nodes publish devices: enough for one cluster and not for a second.
NODES = ("h200-0", "h200-1")
ALL = (*NODES, "h200-2", "h200-3")
# GKE labels nodes whose networks it has made.
PROFILE = "gke.networks.io/accelerator-network-profile"


def device_class() -> Manifest:
    """Describe the class of RDMA devices as GKE's driver does: by an expression on the driver's name."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": "mrdma.google.com"},
        "spec": {"selectors": [selector]},
    }


def resource_slice(node: str) -> Manifest:
    """Describe the eight RDMA devices of one node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu{number}rdma0"} for number in range(8)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{node}-rdma"}, "spec": spec}


@pytest.fixture
def devices(kube: Kube) -> Iterator[None]:
    """A cluster whose two nodes publish their RDMA devices."""
    kube.create([device_class(), *map(resource_slice, NODES)])
    kube.run("label", "node", *ALL, f"{PROFILE}=auto")
    yield
    kube.run("label", "node", *ALL, f"{PROFILE}-")
    for node in NODES:
        kube.delete("resourceslice", f"{node}-rdma")
    kube.delete("deviceclass", "mrdma.google.com")


def claims(kube: Kube, stack: Stack) -> list[Manifest]:
    """Return the claims that are allocated."""
    found = kube.list("resourceclaims", stack.namespace)
    return [claim for claim in found if claim.get("status", {}).get("allocation")]


def test_workers_get_all_devices_of_their_node(devices: None, new_stack: NewStack, kube: Kube) -> None:
    stack = new_stack("h200", network={"mode": "dranet"})
    stack.install("network", "storage", "raycluster")
    stack.until_ready()
    workers = stack.pods()[1:]
    assert {worker["spec"]["nodeName"] for worker in workers} == set(NODES)
    allocated = claims(kube, stack)
    assert [len(claim["status"]["allocation"]["devices"]["results"]) for claim in allocated] == [8, 8]
    refused = new_stack("h200", network={"mode": "dranet"})
    refused.install("storage", "raycluster")
    until(lambda: "cannot allocate all claims" in kube.events(refused.namespace), "a second cluster without devices")
    assert claims(kube, refused) == []
    refused.uninstall("raycluster", "storage")
    stack.uninstall("raycluster", "storage", "network")
    until(lambda: not claims(kube, stack), "devices released")
