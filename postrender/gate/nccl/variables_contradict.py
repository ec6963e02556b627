"""A container's NCCL variables must leave NCCL a network that it can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from postrender.finding import ERROR, Finding
from postrender.gate import environment
from postrender.gate.manifests import Manifests
from postrender.manifests import nccl
from postrender.manifests.nccl import DEVICES, DISABLE, NET, PLUGIN, Names
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path, Pod
    from postrender.wiring.plan import Wiring

    # Path below the container, and value; None where it is not known.
    Given = dict[str, tuple[Path, str | None]]

# How Linux names the devices of NVIDIA's network cards on any cloud that gives them no names of its own.
_ANYWHERE: Final = "mlx5"
_REMOVE: Final = "remove {}: the post-renderer writes the variables that the machine needs"


class _Machine(NamedTuple):
    """What is known of a pod's machine: name, net and devices, and the prefixes of devices that it does not have."""

    name: str = ""
    net: str = ""
    devices: str = ""
    others: frozenset[str] = frozenset()


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the variables of each container with each other, and with the net and the devices of its machine."""
    known = {id(pod): _of_values(pod, wiring) for _, pod, wiring in manifests.whole_pods()}
    for _, pod, asked in manifests.other_pods(_may_name_devices):
        if not any(each.hca for each in asked):
            known[id(pod)] = _Machine(others=_of_other_machines())
    for item, pod in manifests.pods():
        for path, name, what in _contradictions(manifests, item, pod, known.get(id(pod), _Machine())):
            yield item.finding(path, what)._replace(fix=_REMOVE.format(name))


def _of_values(pod: Pod, wiring: Wiring) -> _Machine:
    wanted = {str(each["name"]): str(each.get("value")) for each in wiring.nccl}
    devices = wanted.get(DEVICES, "")
    others = frozenset() if devices else _of_other_machines()
    # A pod that works alone needs no network.
    net = wanted.get(NET, "") if wiring.mode != "none" and pod.count != 1 else ""
    return _Machine(wiring.profile, net, devices, others)


def _contradictions(manifests: Manifests, item: Item, pod: Pod, machine: _Machine) -> Iterator[tuple[Path, str, str]]:
    """Yield each contradictory variable's path and name, and what it contradicts."""
    for position, container in enumerate(pod.containers()):
        given = _variables(manifests, item, container)
        # Another container than that of the GPUs, or a source elsewhere, does not tell what NCCL gets.
        is_main = position == pod.gpu_container()[0] and environment.is_complete(manifests, item, container)
        net = given[NET][1] if NET in given else machine.net if is_main and NET not in _script(container) else ""
        whose = f"{NET} is {net}" if NET in given else f"the net of {machine.name} is {net}"
        for name, (below, value) in given.items():
            if net and value is not None and (reason := _reason(name, value, net, whose, machine)):
                path = (*pod.path, "spec", "containers", position, *below)
                yield path, name, f"container {container.get('name')} has {name} {value or '(empty)'}, {reason}"


def _reason(name: str, value: str, net: str, whose: str, machine: _Machine) -> str:
    asked, is_verbs = net.lower(), net.lower() in nccl.VERBS
    if name == PLUGIN and asked not in nccl.OWN | nccl.OF_PLUGINS.get(value.lower(), {asked}):
        return f"so that NCCL has no {net}, which {NET} asks for" if whose.startswith(NET) else f"but {whose}"
    if name == DISABLE and is_verbs and nccl.is_on(value):
        return f"but {whose}, which this switches off"
    if name == DEVICES and is_verbs and _are_others(value, machine):
        return f"but the devices of its machine have other names, and {whose}"
    return ""


def _are_others(value: str, machine: _Machine) -> bool:
    if machine.devices:
        return not Names.of(value).meets(Names.of(machine.devices))
    return nccl.only(value, machine.others)


def _script(container: Mapping[str, Any]) -> str:
    return "\n".join(str(word) for key in ("command", "args") for word in sequence(container.get(key)))


def _variables(manifests: Manifests, item: Item, container: Mapping[str, Any]) -> Given:
    """Return the variables of NCCL, without those that a script of the container names."""
    script = _script(container)
    found: Given = {}
    for path, name, entry in environment.variables(manifests, item, container):
        if name in (NET, PLUGIN, DISABLE, DEVICES) and name not in script:
            found[name] = (path, None if "valueFrom" in entry else str(entry.get("value") or ""))
    return found


def _may_name_devices(pod: Pod) -> bool:
    """Return whether a container names the devices, itself or perhaps by a ConfigMap."""
    containers = pod.containers()
    entries = [mapping(each) for one in containers for each in sequence(one.get("env"))]
    return any(one.get("envFrom") for one in containers) or any(each.get("name") == DEVICES for each in entries)


def _of_other_machines() -> frozenset[str]:
    """Return the device name prefixes of some machines that never occur on machines without a prefix of their own."""
    found = (machine.hca for machine in profiles.machines())
    return frozenset(hca for hca in found if hca and not hca.startswith(("=", _ANYWHERE)))


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
