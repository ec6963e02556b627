"""NCCL's variables against what the values say that the machine needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.network.objects_nccl import variables_of, wiring_of
from grpo.problems.pods.podspec import PodView, each_pod
from postrender.finding import ERROR, WARNING
from postrender.manifests import nccl
from postrender.manifests.nccl import DEVICES, INTERFACES, NET, PLUGIN, SOCKET, Names
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.pods.podspec import Found

# Of these the right value does not have to be that of the profile: other problems judge them.
_JUDGED: Final = (NET, PLUGIN, *INTERFACES)
# These come with the plugin, whose script or image may set them.
_OF_PLUGIN: Final = ("NCCL_TUNER_CONFIG_PATH",)


def _over_tcp(pod: PodView) -> Found:
    wiring, main = wiring_of(pod), pod.main()
    wanted = variables_of(wiring).get(NET, "") if wiring else ""
    if not main or not wiring or wanted.lower() in ("", SOCKET):
        return
    for path, name, value, _ in main.variables():
        if name == NET and value and value.lower() == SOCKET:
            yield path, f"NCCL_NET is {value}, and {wiring.profile} has RDMA ({wanted})"


def _differs(pod: PodView) -> Found:
    wiring, main = wiring_of(pod), pod.main()
    if not wiring or not main or not main.has_all_variables:
        return
    wanted = {name: value for name, value in variables_of(wiring).items() if name not in _OF_PLUGIN}
    there = {each.name: each for each in main.variables()}
    if not there.keys() & wanted.keys():
        # nccl/plugin-not-set reports a container that has none.
        return
    needed = [name for name in wanted if name not in (NET, PLUGIN) and name not in main.script]
    lacking = [f"{name} ({wanted[name]})" for name in needed if name not in there]
    if lacking:
        yield main.path, f"container {main.name} lacks what {wiring.profile} needs: {', '.join(sorted(lacking))}"
    for name in needed:
        value = there[name].value if name in there else None
        if value is not None and name not in _JUDGED and not _is_like(name, value, wanted[name]):
            what = f"{name} of container {main.name} is {value}, and {wiring.profile} needs {wanted[name]}"
            yield there[name].path, what


def _is_like(name: str, value: str, wanted: str) -> bool:
    if name != DEVICES:
        return value == wanted
    # Devices of other machines are reported by nccl/variables-contradict.
    return nccl.are_others(value, wanted) or Names.of(value).fits(Names.of(wanted))


RULES = (
    Problem(
        "nccl/tcp-instead-of-rdma",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.COSTS,
        title="NCCL_NET asks for sockets on a machine with RDMA",
        why="NCCL uses TCP over the pod network: about 4 GB/s instead of 340 or more with RDMA",
        fix="set NCCL_NET to the network of the machine, or give values with network.mode: none",
        source="NVIDIA/nccl/src/plugin/net.cc at 5067397c",
        check=each_pod(_over_tcp),
    ),
    Problem(
        "nccl/machine-variables",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.COSTS,
        title="a pod lacks a variable of NCCL that its machine needs, or sets it differently",
        why="NCCL may choose devices without a route to other nodes, or the slower of two ways",
        fix="let the post-renderer write them: grpo-post-render --values FILE; or correct accelerator.nccl.env",
        source="https://docs.coreweave.com/products/networking/hpc-interconnect/nccl-configuration-reference",
        check=each_pod(_differs),
    ),
)
