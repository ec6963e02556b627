"""A GPU pod's interfaces must match the machine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender import json_text
from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.profiles import DEFAULT_INTERFACE, INTERFACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Path, Pod
    from postrender.types import Json
    from postrender.wiring.plan import Wiring

    # Names of interfaces with their networks; an entry with interfaceRef has none.
    Interfaces = dict[str, str | None]

_MANAGED = "gke.networks.io/accelerator-network-profile"
_POD_NETWORK = ("default", "pod-network")


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the annotation with the values, or count its interfaces; check the format of all other annotations."""
    ours = {id(pod): wiring for _, pod, wiring in manifests.whole_pods()}
    for item, pod in manifests.pods():
        wiring = ours.get(id(pod))
        found = _missing(pod, wiring) if INTERFACES not in _annotations(pod) else _wrong(pod, wiring)
        # With values that attach no interfaces there is nothing to write in its place.
        fix = "" if wiring is None or INTERFACES in wiring.annotations else f"remove the annotation {INTERFACES}"
        yield from (item.finding(path, what)._replace(fix=fix) for path, what in found)
        if wiring and wiring.mode != "dranet" and mapping(pod.spec.get("nodeSelector")).get(_MANAGED):
            what = f"the pod selects nodes with claimed interfaces, and network.mode is {wiring.mode}"
            yield item.finding((*pod.path, "spec", "nodeSelector", _MANAGED), what)
        if wiring and wiring.mode == "dranet":
            yield from (item.finding(path, what) for path, what in _unclaimed(pod))
    for item, pod, asked in manifests.other_pods(lambda _, pod: INTERFACES in _annotations(pod)):
        there = _read(_annotations(pod).get(INTERFACES))
        (machine, *more) = asked
        if isinstance(there, dict) and not more and machine.rdma and pod.gpu_container()[1] == machine.gpus:
            count = sum(network not in _POD_NETWORK for network in there.values())
            if not machine.rdma <= count <= machine.interfaces:
                what = f"{count} interfaces besides eth0, and {machine.name} has {machine.interfaces}"
                yield item.finding(_place(pod, INTERFACES), f"{INTERFACES}: {what}, {machine.rdma} of them RDMA")


def _annotations(pod: Pod) -> dict[str, object]:
    return mapping(mapping(pod.template.get("metadata")).get("annotations"))


def _place(pod: Pod, annotation: str) -> Path:
    return (*pod.path, "metadata", "annotations", annotation)


def _missing(pod: Pod, wiring: Wiring | None) -> Iterator[tuple[Path, str]]:
    if wiring and INTERFACES in wiring.annotations:
        what = f"the pod has no annotation {INTERFACES}, and gets eth0 alone; network.mode is {wiring.mode}"
        yield (*pod.path, "metadata"), what


def _wrong(pod: Pod, wiring: Wiring | None) -> Iterator[tuple[Path, str]]:
    text = _annotations(pod)[INTERFACES]
    wanted = wiring.annotations.get(INTERFACES) if wiring else None
    place = _place(pod, INTERFACES)
    if wiring and wiring.annotations.items() <= _annotations(pod).items() and wanted:
        # The annotation is what the values require.
        return
    if wiring and wanted is None:
        yield place, f"{INTERFACES} is set, and network.mode is {wiring.mode}"
        return
    there = _read(text)
    if isinstance(there, str):
        yield place, f"{INTERFACES}: {there}"
        return
    needed = _read(wanted)
    if text != wanted and isinstance(needed, dict) and (reason := _difference(there, needed)):
        yield place, f"{INTERFACES}: {reason}"
    yield from _default(pod, there, wiring)


def _default(pod: Pod, there: Interfaces, wiring: Wiring | None) -> Iterator[tuple[Path, str]]:
    """Check the default route's interface: it must be in the list and, if values are given, be the pod network's."""
    key = DEFAULT_INTERFACE
    name = _annotations(pod).get(key)
    wanted = wiring.annotations.get(key) if wiring else None
    if name is None:
        if wanted:
            yield _place(pod, INTERFACES), f"the pod has {INTERFACES} and lacks {key}"
    elif str(name) not in there:
        yield _place(pod, key), f"{key} is {name}, which is not one of the interfaces {', '.join(there)}"
    elif wanted and name != wanted:
        yield _place(pod, key), f"{key} is {name}, and the pod network is {wanted}"


def _parsed(text: str) -> Json:
    try:
        return json_text.loads(text)
    except ValueError:
        return None


def _read(text: object) -> Interfaces | str:
    """Return the interfaces, or the fault in the text."""
    entries = _parsed(text) if isinstance(text, str) else None
    if not isinstance(entries, list):
        return "this is no JSON list of interfaces"
    found: Interfaces = {}
    for number, entry in enumerate(map(mapping, entries), 1):
        name = entry.get("interfaceName")
        if not isinstance(name, str) or not name:
            return f"entry {number} has no interfaceName"
        if ("network" in entry) == ("interface" in entry):
            found_both = "both network and" if "network" in entry else "neither network nor"
            return f"{name} has {found_both} interface, expected one of them"
        if name in found:
            return f"{name} is there twice"
        found[name] = str(entry["network"]) if "network" in entry else None
    return found


def _difference(there: Interfaces, needed: Interfaces) -> str:
    missing = sorted(needed.keys() - there.keys())
    extra = sorted(there.keys() - needed.keys())
    others = sorted(name for name in needed.keys() & there.keys() if not _joins(there[name], needed[name]))
    parts = [
        f"{', '.join(names)} {word}" for names, word in ((missing, "missing"), (extra, "not of this machine")) if names
    ]
    parts += [f"{name} is in network {there[name]} instead of {needed[name]}" for name in others]
    if not parts:
        return ""
    return f"{len(there)} interfaces, the machine has {len(needed)}: {'; '.join(parts)}"


def _joins(there: str | None, needed: str | None) -> bool:
    return there in (None, needed) or (there in _POD_NETWORK and needed in _POD_NETWORK)


def _unclaimed(pod: Pod) -> Iterator[tuple[Path, str]]:
    """Check both halves of a device claim; with only one half, the pod starts without an interface."""
    names = [str(mapping(each).get("name")) for each in sequence(pod.spec.get("resourceClaims"))]
    containers = [*pod.containers(), *map(mapping, sequence(pod.spec.get("initContainers")))]
    resources = [mapping(each.get("resources")) for each in containers]
    used = {str(mapping(each).get("name")) for every in resources for each in sequence(every.get("claims"))}
    if not names:
        yield (*pod.path, "spec"), "network.mode is dranet, and the pod has no resourceClaims"
    for number, name in enumerate(names):
        if name not in used:
            what = f"resourceClaims has {name}, and no container has it among resources.claims"
            yield (*pod.path, "spec", "resourceClaims", number), what


RULE = Problem(
    "network/interfaces-of-another-machine",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.PENDING,
    title="the network interfaces of a GPU pod are malformed, or not those of its machine",
    why="with too few interfaces NCCL is slow, and with another machine's interfaces the pod does not start",
    fix="let the post-renderer write the annotation, or give the values of the machine that the pod runs on",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
