"""The variables of NCCL in a container must leave it a network that it can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from postrender.manifests.pods import Path, Pod

_NET: Final = "NCCL_NET"
_PLUGIN: Final = "NCCL_NET_PLUGIN"
_DISABLE: Final = "NCCL_IB_DISABLE"
_DEVICES: Final = "NCCL_IB_HCA"
# NCCL has two nets of its own, and compares names without case. Others come with a plugin; NCCL_NET_PLUGIN lists the
# plugins to load, and an empty list is none (src/plugin/net.cc, initPluginLibsOnceFunc).
_OWN: Final = frozenset({"ib", "socket"})
# The nets of the plugins that are known, besides NCCL's own; those of aws-ofi-nccl have the name of its version.
_OF_PLUGINS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(),
    "none": frozenset(),
    "ofi": frozenset({"libfabric", "aws libfabric"}),
}
# Nets that use devices of InfiniBand or RoCE: NCCL_IB_DISABLE switches them off, NCCL_IB_HCA chooses among the devices
# (src/transport/net_ib/init.cc). Google's plugin reads the variables of NCCL's own net; its script sets several.
_VERBS: Final = frozenset({"ib", "gib"})
# How Linux names the devices of NVIDIA's network cards on any cloud that gives them no names of its own.
_ANYWHERE: Final = "mlx5"

_REMOVE: Final = "remove {}: the post-renderer writes the variables that the machine needs"


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the variables of each container with each other, and the devices with those of its machine."""
    # Machines with NVIDIA's own names of devices, for which the wiring writes no list of them.
    plain = {
        id(pod) for _, pod, wiring in manifests.whole_pods() if _DEVICES not in {each["name"] for each in wiring.nccl}
    }
    plain |= {id(pod) for _, pod, asked in manifests.other_pods(_names_devices) if not any(each.hca for each in asked)}
    for item, pod in manifests.pods():
        others = _of_other_machines() if id(pod) in plain and _names_devices(pod) else set()
        for path, name, what in _contradictions(pod, others):
            yield item.finding(path, what)._replace(fix=_REMOVE.format(name))


def _contradictions(pod: Pod, others: Iterable[str]) -> Iterator[tuple[Path, str, str]]:
    """Yield path and name of a variable, and what it contradicts."""
    for position, container in enumerate(pod.containers()):
        given = _variables(container)
        net = given.get(_NET, (0, ""))[1]
        for name, (number, value) in given.items():
            if net and (reason := _reason(name, value, net, others)):
                path = (*pod.path, "spec", "containers", position, "env", number)
                yield path, name, f"container {container.get('name')} has {name} {value or '(empty)'}, {reason}"


def _reason(name: str, value: str, net: str, others: Iterable[str]) -> str:
    asked, is_verbs = net.lower(), net.lower() in _VERBS
    if name == _PLUGIN and asked not in _OWN | _OF_PLUGINS.get(value.lower(), {asked}):
        return f"so that NCCL has no {net}, which {_NET} asks for"
    if name == _DISABLE and is_verbs and _is_on(value):
        return f"but {_NET} is {net}, which this switches off"
    if name == _DEVICES and is_verbs and _only(value, others):
        return f"but the devices of its machine have other names, and {_NET} is {net}"
    return ""


def _variables(container: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """Return position and value of the variables of NCCL, without those that a script of the container names."""
    script = "\n".join(str(word) for key in ("command", "args") for word in sequence(container.get(key)))
    found = {}
    for number, entry in enumerate(map(mapping, sequence(container.get("env")))):
        name = str(entry.get("name"))
        if name in (_NET, _PLUGIN, _DISABLE, _DEVICES):
            found[name] = (number, None if "valueFrom" in entry else str(entry.get("value") or ""))
    return {
        name: (number, value) for name, (number, value) in found.items() if value is not None and name not in script
    }


def _is_on(value: str) -> bool:
    try:
        return int(value, 0) != 0
    except ValueError:
        return False


def _only(value: str, prefixes: Iterable[str]) -> bool:
    """Return whether a list of devices has none but those of other machines."""
    names = [] if value.startswith("^") else [each for each in value.lstrip("=").split(",") if each]
    return bool(names) and all(any(each.startswith(prefix) for prefix in prefixes) for each in names)


def _names_devices(pod: Pod) -> bool:
    return any(_DEVICES in _variables(container) for container in pod.containers())


def _of_other_machines() -> set[str]:
    """Return the prefixes of devices that some machine has and those without a prefix of their own do not."""
    return {
        machine.hca for machine in profiles.machines() if machine.hca and not machine.hca.startswith(("=", _ANYWHERE))
    }


RULE = Problem(
    "nccl/variables-contradict",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_LOADING,
    title="NCCL's variables contradict each other, or name the devices of another machine",
    why="NCCL ends at its start with: Failed to initialize any NET plugin",
    fix="remove the one of another cloud: the post-renderer writes the variables that the machine needs",
    source="NVIDIA/nccl/src/plugin/net.cc at 5067397c",
    check=check,
)
