"""A container's NCCL variables must leave NCCL a network that it can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from postrender.finding import ERROR, Finding
from postrender.gate import environment
from postrender.gate.manifests import Manifests
from postrender.manifests import nccl
from postrender.manifests.nccl import DEVICES, DISABLE, NET, PLUGIN
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path, Pod
    from postrender.wiring.plan import Wiring

_REMOVE: Final = "remove {}: the post-renderer writes the variables that the machine needs"


class _Machine(NamedTuple):
    """What is known of a pod's machine: its name and net, and NCCL_IB_HCA of each machine that it may be."""

    name: str = ""
    net: str = ""
    devices: tuple[str, ...] = ()


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the variables of each container with each other, and with the net and the devices of its machine."""
    known = {id(pod): _of_values(pod, wiring) for _, pod, wiring in manifests.whole_pods()}
    for _, pod, asked in manifests.other_pods(lambda item, pod: environment.is_known(manifests, item, pod, DEVICES)):
        known[id(pod)] = _Machine(devices=tuple(machine.hca for machine in asked))
    for item, pod in manifests.pods():
        for path, source, what in _contradictions(manifests, item, pod, known.get(id(pod), _Machine())):
            yield item.finding(path, what)._replace(fix=_REMOVE.format(source))


def _of_values(pod: Pod, wiring: Wiring) -> _Machine:
    wanted = {str(each["name"]): str(each.get("value")) for each in wiring.nccl}
    # A pod that works alone needs no network.
    net = wanted.get(NET, "") if wiring.mode != "none" and pod.count != 1 else ""
    return _Machine(wiring.profile, net, (wanted.get(DEVICES, ""),))


def _contradictions(manifests: Manifests, item: Item, pod: Pod, machine: _Machine) -> Iterator[tuple[Path, str, str]]:
    """Yield each contradictory variable's path and source, and what it contradicts."""
    for position, container in enumerate(pod.containers()):
        given = environment.effective(manifests, item, container, NET, PLUGIN, DISABLE, DEVICES)
        # Another container than that of the GPUs, or a source elsewhere, does not tell what NCCL gets.
        is_main = position == pod.gpu_container()[0] and environment.is_complete(manifests, item, container)
        of_machine = machine.net if is_main and NET not in environment.script(container) else ""
        net = given[NET].value if NET in given else of_machine
        whose = f"{NET} is {net}" if NET in given else f"the net of {machine.name} is {net}"
        for below, name, value, source in given.values():
            if net and value is not None and (reason := _reason(name, value, net, whose, machine)):
                path = (*pod.path, "spec", "containers", position, *below)
                yield path, source, f"container {container.get('name')} has {name} {value or '(empty)'}, {reason}"


def _reason(name: str, value: str, net: str, whose: str, machine: _Machine) -> str:
    asked, is_verbs = net.lower(), net.lower() in nccl.VERBS
    if name == PLUGIN and asked not in nccl.OWN | nccl.OF_PLUGINS.get(value.lower(), {asked}):
        return f"so that NCCL has no {net}, which {NET} asks for" if whose.startswith(NET) else f"but {whose}"
    if name == DISABLE and is_verbs and nccl.is_on(value):
        return f"but {whose}, which this switches off"
    if name == DEVICES and is_verbs and machine.devices and all(nccl.are_others(value, own) for own in machine.devices):
        return f"but the devices of its machine have other names, and {whose}"
    return ""


RULE = Problem(
    "nccl/variables-contradict",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_LOADING,
    title="NCCL's variables contradict each other, or name the devices of another machine",
    why="NCCL ends at its start with: Failed to initialize any NET plugin; without NCCL_NET it takes slow TCP instead",
    fix="remove the one of another cloud: the post-renderer writes the variables that the machine needs",
    source="NVIDIA/nccl/src/plugin/net.cc at 5067397c",
    check=check,
)
