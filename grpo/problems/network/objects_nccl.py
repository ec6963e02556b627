"""NCCL's variables on machines with RDMA: NCCL must use the plugin, and fail without it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_pod
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found

_SCRIPT: Final = "set_nccl_env.sh"
_SOURCED: Final = re.compile(r"(?:^|[\s;&|])(?:source|\.)[ \t]+\S*set_nccl_env\.sh[^\n]*")
_ENDS: Final = re.compile(r"(?m)(?:^|[\s;&|])set[ \t]+-\w*e")
_TESTED: Final = re.compile(r"(?:\btest|\[)[ \t]+(?:![ \t]+)?-[rfes][ \t]+\S*set_nccl_env\.sh")
_INTERFACES: Final = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
_FIRST: Final = ("eth0", "=eth0")
# The variables that the plugin's script sets.
_OWNED: Final = (
    "NCCL_CROSS_NIC",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_TC",
    "NCCL_IB_FIFO_TC",
)
# The nets that come with a cloud's plugin.
_PLUGIN_NETS: Final = ("gib", "libfabric", "aws libfabric")
_EFA: Final = "vpc.amazonaws.com/efa"
_EFA_CLASS: Final = "efa.networking.k8s.aws"
# Variables that the plugin for EFA once needed or sets itself, each with the value that a manifest sets.
# FI_PROVIDER=efa is none: the plugin takes efa without it, too, and other programs on Libfabric read it
# (aws-ofi-nccl src/platform-aws.cpp at 45197dfa).
_OBSOLETE: Final = {
    "RDMAV_FORK_SAFE": "1",
    "FI_EFA_FORK_SAFE": "1",
    "FI_EFA_USE_DEVICE_RDMA": "1",
    "NCCL_PROTO": "simple",
}
_PAGE: Final = "https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom"


def _reads(container: Container) -> bool:
    return str(container.value("BASH_ENV")).endswith(_SCRIPT) or bool(_SOURCED.search(container.script))


def _checked(container: Container) -> bool:
    script = container.script
    found = _SOURCED.search(script)
    if found is None:
        return False
    ends = _ENDS.search(script[: found.start() + 1])
    return bool(ends or _TESTED.search(script) or "||" in found[0] or "&&" in found[0])


def _judged(pod: PodView) -> Iterator[Container]:
    """Yield the main container of pods that use RDMA, if all its variables are in the manifest."""
    main = pod.main() if pod.uses_rdma and pod.attached else None
    if main and not main.spec.get("envFrom"):
        yield main


def _plugin(pod: PodView) -> Found:
    for container in _judged(pod):
        if container.value("NCCL_NET") is None and not _checked(container):
            reason = "sources the plugin's script without a test" if _reads(container) else "never reads its script"
            yield container.path, f"container {container.name} has no NCCL_NET, and {reason}"


def _unnamed(pod: PodView) -> Found:
    for container in _judged(pod):
        missing = [name for name in _INTERFACES if container.value(name) is None]
        if missing:
            yield container.path, f"container {container.name} has no {' and no '.join(missing)}"


def _misnamed(pod: PodView) -> Found:
    for container in _judged(pod):
        for path, name, entry in container.env():
            value = entry.get("value")
            if name in _INTERFACES and value and value not in _FIRST:
                yield path, f"{name} of container {container.name} is {value}"


def _owners(pod: PodView) -> Found:
    main = pod.main()
    if main and _reads(main):
        for path, name, _ in main.env():
            if name in _OWNED:
                yield path, f"container {main.name} has {name}, which the plugin's script sets as well"


def _elsewhere(pod: PodView) -> Found:
    known, main = pod.machines(), pod.main()
    if main and known:
        # A plugin has another name in older versions.
        own = {word for machine in known for word in machine.net.lower().split()}
        for path, name, entry in main.env():
            net = str(entry.get("value"))
            if name == "NCCL_NET" and net.lower() in _PLUGIN_NETS and not own & {*net.lower().split()}:
                machines = " or ".join(each.name for each in known)
                yield path, f"NCCL_NET is {net}, and {machines} has no such network"


def _old(pod: PodView) -> Found:
    main = pod.main()
    limits = mapping(mapping(mapping(main.spec.get("resources")) if main else {}).get("limits"))
    asked = next((name for name in (_EFA, _EFA_CLASS) if name in {*limits, *pod.device_classes}), None)
    for path, name, entry in main.env() if main and asked else ():
        if str(entry.get("value", "")).lower() == _OBSOLETE.get(name):
            yield path, f"container {main.name if main else ''} requests {asked}, and sets {name} to {entry['value']}"


RULES = (
    Problem(
        "nccl/obsolete-efa-variable",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_LOADING,
        title="a variable for EFA is obsolete: newer plugins do not need it, or set it themselves",
        why="RDMAV_FORK_SAFE breaks newer kernels, NCCL_PROTO=simple is slow, and those of FI_EFA_ do nothing",
        fix="remove it, unless the image has aws-ofi-nccl before 1.7; FI_EFA_USE_HUGE_PAGE=0 helps if a fork fails",
        source="https://github.com/aws-samples/awsome-distributed-training/blob/main/1.architectures/efa-cheatsheet.md",
        check=each_pod(_old),
    ),
    Problem(
        "nccl/plugin-not-set",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.COSTS,
        title="nothing stops NCCL from running without the RDMA plugin",
        why="without the plugin NCCL uses TCP, about 4 GB/s instead of 340 with RDMA",
        fix="set NCCL_NET: gIB, or let the start fail without the plugin's script: source FILE || exit 1",
        source=_PAGE,
        check=each_pod(_plugin),
    ),
    Problem(
        "nccl/plugin-without-network",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_LOADING,
        title="NCCL_NET names a network that the machine does not have",
        why="NCCL fails with: invalid usage, or with the network not found",
        fix="remove NCCL_NET, so that NCCL chooses a network of the machine",
        source=_PAGE,
        check=each_pod(_elsewhere),
    ),
    Problem(
        "nccl/another-socket-interface",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_LOADING,
        title="NCCL or Gloo may use another socket interface than the pod network's",
        why="an RDMA interface has no route to the bootstrap sockets of other nodes: the job hangs when it starts",
        fix="set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to eth0",
        source=_PAGE,
        check=each_pod(_misnamed),
    ),
    Problem(
        "nccl/socket-interface-not-set",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_LOADING,
        title="the socket interface of NCCL or Gloo is not set",
        why="NCCL, Gloo and Ray each choose one of ten interfaces, and an RDMA interface has no route to other nodes",
        fix="set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to eth0",
        source=_PAGE,
        check=each_pod(_unnamed),
    ),
    Problem(
        "nccl/two-owners",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a variable of NCCL is set both in the manifest and by the plugin's script",
        why="the order decides which value wins, and an update of the plugin changes only one of them",
        fix="remove the variables: the script has the values of its version",
        source=_PAGE,
        check=each_pod(_owners),
    ),
)
