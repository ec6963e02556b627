"""Machines that look like a cloud's machines with GPUs: what they offer, labels, taints, and the driver's files."""

from __future__ import annotations

from pathlib import Path

from harness import nodes
from harness.nodes import Profile
from harness.realnode.node import Node


def pretend(node: Node, profile: Profile, number: int) -> None:
    """Let a node look like machine `number` of a profile as its cloud shows it; processors and memory are real."""
    shown = nodes.gpu_node(profile, number)
    real = ("cpu", "memory", "pods")
    node.offer({key: value for key, value in shown["status"]["capacity"].items() if key not in real})
    node.label({key: text for key, text in shown["metadata"]["labels"].items() if not key.startswith("kubernetes.io/")})
    node.taint(shown["spec"]["taints"])
    install_driver(node, profile)


def install_driver(node: Node, profile: Profile) -> None:
    """Put onto a machine what the installers of GKE leave there: two folders, NCCL's script and its tuner."""
    folders = {entry["mountPath"]: entry["hostPath"] for entry in profile.values["hostPaths"].values()}
    node.machine.run("mkdir", "-p", *folders.values())
    inside, outside = next((mount, path) for mount, path in folders.items() if path.endswith("gib"))
    for file in (profile.values["nccl"]["environmentScript"], profile.values["nccl"]["tunerConfig"]):
        place = Path(outside) / Path(file).relative_to(inside)
        node.machine.run(
            "sh", "-ec", 'mkdir -p "$1"; echo export NCCL_IB_TC=52 >"$1/$2"', "sh", place.parent, place.name
        )
