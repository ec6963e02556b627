"""RDMA interfaces on the machines, and the driver that gives them to pods by claims: DRANET, on which GKE's is based.

The interfaces are cables: one switch, a rail, joins the interfaces of the same number, as between machines with GPUs.
They carry Ethernet, not RDMA.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from harness.processes import Program
from harness.realnode.machine import ip
from harness.realnode.node import Node
from harness.waiting import until

RAILS = 8
# Beside them a machine has the cables of its pods.
OURS = 'attributes["dra.net/ifName"].StringValue.startsWith("gpu")'


def interface(number: int) -> str:
    """Name an interface as the machine and the pod that gets it see it."""
    return f"gpu{number}rdma0"


def address(node: Node, number: int) -> str:
    """Return the address of an interface; each rail is a subnet."""
    return f"10.{200 + number}.0.{100 + node.machine.address.number}"


class Rails:
    """The switches between the machines, with the interfaces that are plugged in."""

    def __init__(self) -> None:
        for number in range(RAILS):
            ip("link", "add", f"rail{number}", "type", "bridge")
            ip("link", "set", f"rail{number}", "up")

    def plug(self, node: Node, numbers: Iterable[int]) -> None:
        """Give a machine interfaces."""
        for number in numbers:
            end, pid = f"rail{number}-{node.machine.address.number}", str(node.machine.holder.process.pid)
            name = interface(number)
            ip("link", "add", end, "type", "veth", "peer", "name", name, "netns", pid)
            ip("link", "set", end, "master", f"rail{number}", "up")
            node.machine.run("ip", "address", "add", f"{address(node, number)}/24", "dev", name)
            node.machine.run("ip", "link", "set", name, "up")

    def remove(self, nodes: Iterable[Node]) -> None:
        """Take all interfaces and switches away."""
        for number in range(RAILS):
            for node in nodes:
                ip("link", "delete", f"rail{number}-{node.machine.address.number}")
            ip("link", "delete", f"rail{number}")


def start_driver(node: Node) -> Program:
    """Start the driver on a machine and return when it offers devices."""
    folder = node.machine.folder
    program = node.machine.start(
        "dranet",
        node.tools.bin / "dranet",
        f"--kubeconfig={node.kubeconfig}",
        f"--hostname-override={node.name}",
        f"--kubelet-root-dir={folder / 'kubelet'}",
        f"--db-path={folder / 'dranet.db'}",
        f"--filter={OURS}",
        "--cloud-provider-hint=NONE",
    )

    def offers() -> list[str]:
        program.check()
        return offered(node)

    until(offers, f"devices of {node.name}", 60, seen=program.tail)
    return program


def offered(node: Node) -> list[str]:
    """Return the names of the devices that the driver of a machine offers."""
    found = node.kube.list("resourceslices.resource.k8s.io")
    slices = [each["spec"] for each in found if each["spec"].get("nodeName") == node.name]
    return sorted(device["name"] for each in slices for device in each.get("devices", []))


def interfaces(text: str) -> list[str]:
    """Return the names of RDMA interfaces in the output of `ip -json address`."""
    return sorted(each["ifname"] for each in json.loads(text) if each["ifname"].endswith("rdma0"))
