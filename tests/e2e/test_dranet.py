"""RDMA devices by DRA: a device class and one slice a node, allocated by the real scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness.devices import allocated, published
from harness.kube import Kube
from harness.waiting import until

# Two of the four H200 nodes publish devices: enough for one cluster and not for a second.
NODES = ("h200-0", "h200-1")
ALL = (*NODES, "h200-2", "h200-3")


@pytest.fixture
def devices(kube: Kube) -> Iterator[None]:
    """A cluster whose two nodes publish their RDMA devices."""
    with published(kube, NODES, ALL):
        yield


def test_workers_get_all_devices_of_their_node(devices: None, new_stack: NewStack, kube: Kube) -> None:
    stack = new_stack("h200", network={"mode": "dranet"})
    stack.install("network", "storage", "raycluster")
    stack.until_ready()
    workers = stack.pods()[1:]
    assert {worker["spec"]["nodeName"] for worker in workers} == set(NODES)
    claims = allocated(kube, stack.namespace)
    assert [len(claim["status"]["allocation"]["devices"]["results"]) for claim in claims] == [8, 8]
    refused = new_stack("h200", network={"mode": "dranet"})
    refused.install("storage", "raycluster")
    until(lambda: "cannot allocate all claims" in kube.events(refused.namespace), "a second cluster without devices")
    assert allocated(kube, refused.namespace) == []
    refused.uninstall("raycluster", "storage")
    stack.uninstall("raycluster", "storage", "network")
    until(lambda: not allocated(kube, stack.namespace), "devices released")
