"""network.mode dranet on real nodes: the driver gives each worker the RDMA interfaces of its machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from conftest import GPU_NODES, READY_SECONDS, NewStack
from harness.connections import connects
from harness.devices import DRANET, GOOGLE, PROFILE, allocated, device_class
from harness.kube import Kube, Manifest
from harness.realnode import dranet
from harness.realnode.cluster import RealCluster
from harness.realnode.dranet import RAILS, Rails
from harness.realnode.node import Node
from harness.stack import Stack
from harness.waiting import report, until

METRICS = 8080


@pytest.fixture(scope="module")
def machines(cluster: RealCluster) -> list[Node]:
    """The machines that have RDMA interfaces."""
    return [cluster.nodes[name] for name in GPU_NODES]


@pytest.fixture(scope="module")
def rails(machines: list[Node], kube: Kube) -> Iterator[Rails]:
    """Interfaces of both machines, but for one that the last lacks, with their driver and a class of GKE's name.

    GKE's own class takes RDMA devices only, and these carry Ethernet.
    """
    rails = Rails()
    kube.create([device_class(GOOGLE, as_of=DRANET)])
    for node, number in zip(machines, (RAILS, RAILS - 1), strict=True):
        rails.plug(node, range(number))
        node.label({PROFILE: "auto"})
    drivers = [dranet.start_driver(node) for node in machines]
    yield rails
    for node, driver in zip(machines, drivers, strict=True):
        node.machine.programs.end(driver)
        kube.run("label", "node", node.name, f"{PROFILE}-")
    rails.remove(machines)
    kube.delete("deviceclass", GOOGLE)


@pytest.fixture(scope="module")
def stack(rails: Rails, new_stack: NewStack) -> Iterator[Stack]:
    """A stack whose workers claim the interfaces; its last worker waits for the one that is lacking."""
    stack = new_stack("h200", "helm4", network={"mode": "dranet"})
    stack.install("network", "storage", "raycluster")
    yield stack
    stack.uninstall_all()


def inside(kube: Kube, pod: Manifest) -> list[str]:
    """Return the RDMA interfaces that a pod has."""
    return dranet.interfaces(kube.execute(pod, "ip", "-json", "address"))


def test_a_worker_waits_until_its_machine_has_every_interface(
    stack: Stack, rails: Rails, machines: list[Node], kube: Kube
) -> None:
    """Its worker waits with the words of the scheduler, and starts when the interface is there."""
    until(
        lambda: "cannot allocate all claims" in kube.events(stack.namespace),
        "a worker that waits for its claim",
        60,
        seen=lambda: kube.events(stack.namespace),
    )
    rails.plug(machines[-1], [RAILS - 1])
    since = time.time()
    stack.until_ready(READY_SECONDS)
    report("the cluster is ready", since)


def test_each_worker_gets_the_interfaces_of_its_machine(stack: Stack, machines: list[Node], kube: Kube) -> None:
    names = [dranet.interface(number) for number in range(RAILS)]
    claims = allocated(kube, stack.namespace)
    for node in machines:
        results = [claim["status"]["allocation"]["devices"]["results"] for claim in claims]
        (own,) = [devices for devices in results if devices[0]["pool"] == node.name]
        assert sorted(device["device"] for device in own) == names
        assert dranet.interfaces(node.machine.run("ip", "-json", "address")) == []
        (worker,) = [pod for pod in stack.pods()[1:] if pod["spec"]["nodeName"] == node.name]
        assert inside(kube, worker) == names
    for claim in claims:
        reported = {device["device"]: device["networkData"]["interfaceName"] for device in claim["status"]["devices"]}
        assert reported == dict(zip(names, names, strict=True))


def test_the_workers_reach_each_other_over_every_rail(stack: Stack, machines: list[Node], kube: Kube) -> None:
    first, _ = stack.pods()[1:]
    (other,) = [node for node in machines if node.name != first["spec"]["nodeName"]]
    for number in range(RAILS):
        assert connects(kube, first, dranet.address(other, number), METRICS)


def has_all(node: Node) -> bool:
    """Return whether all interfaces are in the machine, none in a pod."""
    return len(dranet.interfaces(node.machine.run("ip", "-json", "address"))) == RAILS


def test_the_machines_get_their_interfaces_back_after_an_uninstall(
    stack: Stack, machines: list[Node], kube: Kube
) -> None:
    stack.uninstall("raycluster")
    until(lambda: not allocated(kube, stack.namespace), "devices released", 60)
    for node in machines:
        until(partial(has_all, node), f"the interfaces of {node.name}")
