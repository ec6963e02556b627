"""RDMA devices by DRA: GKE's device class and one slice a node, allocated by the real scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import Machines, NewStack
from harness.devices import allocated, devices_of, named, published, results
from harness.kube import Kube
from harness.stack import Stack
from harness.waiting import until

# Two of the four H200 nodes publish devices: enough for one cluster and not for a second.
NODES = ("h200-0", "h200-1")
ALL = (*NODES, "h200-2", "h200-3")
# No driver of NVIDIA makes the claims of a ComputeDomain here.
GRACE: dict[str, Any] = {
    "network": {"mode": "dranet"},
    "accelerator": {"nvlinkDomainNodes": None},
    "images": {"training": {"arm64": True}},
}


@pytest.fixture
def devices(kube: Kube) -> Iterator[None]:
    """A cluster whose two nodes publish their RDMA devices."""
    with published(kube, "h200", NODES, ALL):
        yield


def rdma_devices(machine: str) -> set[str]:
    """Return the devices of a machine that a claim of GKE's class may have: those of its RDMA interfaces."""
    return {name for name, interface in named(machine, "dra.net/ifName").items() if interface.startswith("gpu")}


def until_refused(stack: Stack) -> None:
    """Wait until the scheduler says that no node has devices for the workers of a stack."""

    def events() -> str:
        return stack.kube.events(stack.namespace)

    until(lambda: "cannot allocate all claims" in events(), "workers without devices", seen=events)


@pytest.mark.ci
def test_workers_get_all_devices_of_their_node(devices: None, new_stack: NewStack, kube: Kube) -> None:
    stack = new_stack("h200", network={"mode": "dranet"})
    stack.install("network", "storage", "raycluster")
    stack.until_ready()
    workers = stack.pods()[1:]
    assert {worker["spec"]["nodeName"] for worker in workers} == set(NODES)
    claims = allocated(kube, stack.namespace)
    assert [sorted(results(claim)) for claim in claims] == [sorted(rdma_devices("h200"))] * 2
    assert len(devices_of("h200")) == 9
    refused = new_stack("h200", network={"mode": "dranet"})
    refused.install("storage", "raycluster")
    until_refused(refused)
    assert allocated(kube, refused.namespace) == []
    refused.uninstall("raycluster", "storage")
    stack.uninstall("raycluster", "storage", "network")
    until(lambda: not allocated(kube, stack.namespace), "devices released")


def test_devices_without_rdma_do_not_match_the_device_class(
    machines: Machines, new_stack: NewStack, kube: Kube
) -> None:
    """As on A4X Max while asapd-lite does not run: the driver publishes the four other functions of each node."""
    nodes = machines("gb300")
    with published(kube, "gb300", nodes, nodes):
        for node in nodes:
            found = kube.get("resourceslice", f"{node}-dra.net")["spec"]["devices"]
            others = [device for device in found if device["attributes"]["dra.net/rdma"] == {"bool": False}]
            patch = [{"op": "replace", "path": "/spec/devices", "value": others}]
            kube.run("patch", "resourceslice", f"{node}-dra.net", "--type=json", f"--patch={json.dumps(patch)}")
        stack = new_stack("gb300").with_values(**GRACE)
        stack.install("storage", "raycluster")
        until_refused(stack)
        assert allocated(kube, stack.namespace) == []
        stack.uninstall("raycluster", "storage")


@pytest.mark.parametrize(("name", "count"), [("gb200", 4), ("gb300", 8)])
def test_workers_in_a_rack_get_the_rdma_devices_of_their_node(
    name: str, count: int, machines: Machines, new_stack: NewStack, kube: Kube
) -> None:
    """One a GPU on A4X, two on A4X Max, and none of the other interfaces."""
    nodes = machines(name)
    with published(kube, name, nodes, nodes):
        stack = new_stack(name).with_values(**GRACE)
        stack.install("network", "storage", "raycluster")
        stack.until_ready()
        assert {worker["spec"]["nodeName"] for worker in stack.pods()[1:]} == set(nodes)
        claims = allocated(kube, stack.namespace)
        assert [sorted(results(claim)) for claim in claims] == [sorted(rdma_devices(name))] * 2
        assert len(rdma_devices(name)) == count
        stack.uninstall("raycluster", "storage", "network")
