"""How a pod's RDMA interfaces are attached: by annotations or by claims, but not by both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.problems.pods.podspec import PodView, each_pod, objects
from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests, joined
from postrender.manifests.pods import mapping, names, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.profiles import INTERFACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found
    from postrender.types import Json
    from postrender.values.profiles import Machine

_CLASSES: Final = ("mrdma.google.com", "netdev.google.com")
_CLAIMED: Final = "gke.networks.io/accelerator-network-profile"
_DRANET: Final = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra"


def _names(values: Json) -> list[str]:
    return [str(mapping(each).get("name")) for each in sequence(values)]


def _half(pod: PodView) -> Found:
    claimed = _names(pod.spec.get("resourceClaims"))
    used: set[str] = set()
    for container in pod.containers():
        names = _names(mapping(container.spec.get("resources")).get("claims"))
        used.update(names)
        for number, name in enumerate(names):
            if name not in claimed:
                path = (*container.path, "resources", "claims", number)
                yield path, f"container {container.name} uses the claim {name}, and the pod has no claim of this name"
    wiring = pod.manifests.wiring
    if pod.wired and wiring and wiring.mode == "dranet":
        # network/interfaces-of-another-machine reports it.
        return
    for number, name in enumerate(claimed):
        if name not in used:
            yield pod.path("resourceClaims", number), f"no container uses the claim {name} of the pod"


def _attached(pod: PodView) -> bool:
    # A pod with only the pod network needs no GPU network.
    text = str(pod.annotations.get(INTERFACES, ""))
    return text.count("interfaceName") > 1 or "rdma" in text


def _both(pod: PodView) -> Found:
    if _attached(pod) and _CLAIMED in mapping(pod.spec.get("nodeSelector")):
        yield pod.annotation(INTERFACES), f"{INTERFACES} is set, and the pod selects nodes whose interfaces are claimed"


def _requests(item: dict[str, Any]) -> Iterator[str]:
    spec = mapping(item.get("spec"))
    devices = mapping(mapping(spec.get("spec")).get("devices")) or mapping(spec.get("devices"))
    for each in map(mapping, sequence(devices.get("requests"))):
        yield str(mapping(each.get("exactly")).get("deviceClassName") or each.get("deviceClassName"))


def _mixed(manifests: Manifests) -> Iterator[Finding]:
    networks = [item for item, spec in objects(manifests, "GKENetworkParamSet") if spec.get("deviceMode")]
    for item, _ in objects(manifests, "ResourceClaimTemplate", "ResourceClaim"):
        found = [name for name in _requests(item.object) if name in _CLASSES]
        if found and networks:
            yield item.finding(("spec",), f"{found[0]} is claimed, and {networks[0].title} attaches interfaces by name")


def _unfit(pod: PodView) -> Found:
    known = pod.machines() if _attached(pod) else []
    reasons = sorted({_reason(machine) for machine in known})
    if known and all(reasons):
        yield pod.annotation(INTERFACES), f"{INTERFACES} is set, and {names(known)} {' or '.join(reasons)}"


def _reason(machine: Machine) -> str:
    """Return why no networks can be attached to a machine's pods; empty if they can."""
    if not machine.is_google:
        return "is not a machine of GKE"
    if machine.interfaces:
        return ""
    if "dranet" in machine.modes:
        return "has its interfaces by claims only"
    # Networks that only our charts do not set up are there.
    return "" if "multiNetwork" in machine.refuses else "has no GPU networks"


def _none(pod: PodView) -> Found:
    claims = pod.spec.get("resourceClaims") or pod.spec.get("hostNetwork") is True
    # With values, another rule compares the list.
    if pod.uses_rdma and not pod.wired and not claims and INTERFACES not in pod.annotations:
        names = " or ".join(machine.name for machine in pod.machines())
        what = f"the pod takes a whole node of {names}, and has neither {INTERFACES} nor a claim"
        yield pod.path("nodeSelector" if pod.spec.get("nodeSelector") else "affinity"), what


RULES = (
    Problem(
        "network/no-rdma-interfaces",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.COSTS,
        title="a multi-node training pod has no RDMA interfaces",
        why="the pod gets only eth0, and NCCL uses TCP: about 4 GB/s instead of 340 with RDMA",
        fix="let the post-renderer write the annotations: grpo-post-render --values FILE",
        source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
        check=each_pod(_none),
    ),
    Problem(
        "network/half-a-claim",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a device claim is only in the pod or only in the container",
        why="without the pod's half the pod is refused; without the container's half it starts and has no device",
        fix="name the claim in resourceClaims of the pod and in resources.claims of the container",
        source=_DRANET,
        check=each_pod(_half),
    ),
    Problem(
        "network/two-ways-to-attach",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.COSTS,
        title="interfaces are attached both by annotations and by claims",
        why="a GKE cluster supports one way or the other: with both, devices are assigned twice, or not at all",
        fix="keep one of the two: set network.mode to multiNetwork or dranet",
        source=_DRANET,
        check=joined(each_pod(_both), _mixed),
    ),
    Problem(
        "network/no-such-networks",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="annotations attach networks that the machine does not have",
        why="the networks do not exist on such a node, and the pod is refused or stays pending",
        fix="remove the annotation, and take the network of the machine's profile (values/accelerators)",
        source="https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines",
        check=each_pod(_unfit),
    ),
)
