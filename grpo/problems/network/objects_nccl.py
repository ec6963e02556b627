"""NCCL's variables on machines with RDMA: NCCL must use the plugin, and fail if it is missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_pod
from postrender.finding import ERROR, WARNING
from postrender.manifests import nccl
from postrender.manifests.nccl import GLOO, INTERFACES, NET, PLUGIN, Names
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found
    from postrender.wiring.plan import Wiring

_SCRIPT: Final = "set_nccl_env.sh"
_SOURCED: Final = re.compile(r"(?:^|[\s;&|])(?:source|\.)[ \t]+\S*set_nccl_env\.sh[^\n]*")
_ENDS: Final = re.compile(r"(?m)(?:^|[\s;&|])set[ \t]+-\w*e")
_TESTED: Final = re.compile(r"(?:\btest|\[)[ \t]+(?:![ \t]+)?-[rfes][ \t]+\S*set_nccl_env\.sh")
_FIRST: Final = "eth0"
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
_OWN_NET: Final = "ib"
# How all known nets begin: NCCL's own, those above, and those of NVIDIA's HPC-X and of Google's older machines.
_KNOWN_NETS: Final = ("ib", "socket", "gib", "libfabric", "aws", "ucx", "sharp", "fastrak", "gpudirect", "tcpx")
# Words for networks that no plugin has as its name.
_NO_NETS: Final = ("efa", "ethernet", "ibverbs", "infiniband", "ofi", "rdma", "roce", "tcp", "verbs")
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
    """Yield the main container of each pod that uses RDMA, if all of its variables are in the manifest."""
    main = pod.main() if pod.uses_rdma and pod.attached else None
    if main and main.has_all_variables:
        yield main


def _plugin(pod: PodView) -> Found:
    for container in _judged(pod):
        if container.value("NCCL_NET") is None and not _checked(container):
            reason = "sources the plugin's script without a test" if _reads(container) else "never reads its script"
            yield container.path, f"container {container.name} has no NCCL_NET, and {reason}"
    wiring, main = wiring_of(pod), pod.main()
    if not wiring or not main or pod.uses_rdma or not main.has_all_variables or _reads(main):
        return
    variables = variables_of(wiring)
    names = [name for name in variables if name not in (PLUGIN, *INTERFACES)]
    # NCCL finds InfiniBand by itself; the transport of a plugin it takes only where the plugin is loaded.
    is_own = variables.get(NET, "").lower() == _OWN_NET
    if NET in names and not is_own and not any(main.value(name) is not None or name in main.script for name in names):
        what = f"has none of the variables with which {wiring.profile} uses RDMA: {', '.join(names)}"
        yield main.path, f"container {main.name} {what}"


def wiring_of(pod: PodView) -> Wiring | None:
    """Return the wiring of the values for a pod that communicates with others over the network of its machine."""
    wiring = pod.manifests.wiring if pod.wired else None
    return wiring if wiring and wiring.mode != "none" and pod.pod.count != 1 else None


def variables_of(wiring: Wiring) -> dict[str, str]:
    """Return the variables of NCCL that a machine needs."""
    return {name: str(each["value"]) for each in wiring.nccl if (name := str(each["name"])).startswith("NCCL_")}


def _unnamed(pod: PodView) -> Found:
    for container in _judged(pod):
        missing = [name for name in INTERFACES if container.value(name) is None]
        if missing:
            yield container.path, f"container {container.name} has no {' and no '.join(missing)}"


def _misnamed(pod: PodView) -> Found:
    strict = next(_judged(pod), None)
    wanted, main = _interface(pod), strict or pod.main()
    for path, name, value, _ in main.variables() if main and (strict or wanted) else ():
        if name not in INTERFACES or not value:
            continue
        # Gloo takes names. Where RDMA interfaces are beside it, a prefix or an exclusion selects these too.
        exact = [wanted or _FIRST] + ([f"={wanted or _FIRST}"] if name != GLOO else [])
        fits = value in exact if strict or name == GLOO else Names.of(value).selects(wanted)
        if not fits:
            yield path, f"{name} of container {main.name if main else ''} is {value}, and the pod network is {exact[0]}"


def _interface(pod: PodView) -> str:
    """Return the interface of the pod network; empty for a pod that communicates with no other, or is not known."""
    if wiring := wiring_of(pod):
        return variables_of(wiring).get(INTERFACES[0], "")
    known = {machine.socket for machine in pod.machines()} if pod.spans_nodes and not pod.wired else set()
    return known.pop() if len(known) == 1 and all(machine.modes for machine in pod.machines()) else ""


def _owners(pod: PodView) -> Found:
    main = pod.main()
    if main and _reads(main):
        for path, name, *_ in main.variables():
            if name in _OWNED:
                yield path, f"container {main.name} has {name}, which the plugin's script sets as well"


def _elsewhere(pod: PodView) -> Found:
    main, wiring = pod.main(), pod.manifests.wiring if pod.wired else None
    if not main or not main.gpus:
        return
    known = pod.machines()
    nets = [variables_of(wiring).get(NET, "")] if wiring else [machine.net for machine in known]
    whose = wiring.profile if wiring else " or ".join(machine.name for machine in known)
    # A plugin has another name in older versions.
    own = {word for net in nets for word in net.lower().split()}
    plugin = (main.value(PLUGIN) or "").lower()
    has_none = bool(plugin) and plugin in nccl.OF_PLUGINS
    for path, name, net, _ in main.variables():
        asked = (net or "").lower()
        if name != NET or not asked or own & {*asked.split()}:
            continue
        if whose and (asked in _PLUGIN_NETS or (asked == "ib" and own and not own & nccl.VERBS)):
            yield path, f"NCCL_NET is {net}, and {whose} has no such network"
        # Without the variable NCCL loads libnccl-net.so, whose name for its network is not known here.
        elif asked in _NO_NETS or (has_none and not asked.startswith(_KNOWN_NETS)):
            yield path, f"NCCL_NET is {net}, and NCCL has no network of this name (IB or Socket) without a plugin"


def _old(pod: PodView) -> Found:
    main = pod.main()
    limits = mapping(mapping(mapping(main.spec.get("resources")) if main else {}).get("limits"))
    asked = next((name for name in (_EFA, _EFA_CLASS) if name in {*limits, *pod.device_classes}), None)
    for path, name, value, _ in main.variables() if main and asked else ():
        if value and value.lower() == _OBSOLETE.get(name):
            yield path, f"container {main.name if main else ''} requests {asked}, and sets {name} to {value}"


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
        fix="set NCCL_NET (gIB, Libfabric), or let the start fail without the script: source FILE || exit 1",
        source=_PAGE,
        check=each_pod(_plugin),
    ),
    Problem(
        "nccl/plugin-without-network",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_LOADING,
        title="NCCL_NET names a network that NCCL or the machine does not have",
        why="NCCL fails with: invalid usage, or with the network not found",
        fix="write the name of the machine's network (IB, gIB, Libfabric), or remove NCCL_NET",
        source=_PAGE,
        check=each_pod(_elsewhere),
    ),
    Problem(
        "nccl/another-socket-interface",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_LOADING,
        title="NCCL or Gloo may use another socket interface than the pod network's",
        why="NCCL and Gloo find no such interface, or one for RDMA without a route to other nodes, so the job "
        "fails or hangs",
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
