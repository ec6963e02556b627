"""Devices of other clouds' networks: how much of them, and for which pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container, each_pod
from postrender.finding import ERROR, WARNING
from postrender.gate.manifests import joined
from postrender.manifests.pods import GPU, mapping, names, selected
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from grpo.problems.pods.podspec import Found

_COREWEAVE: Final = "node.coreweave.cloud/type"
_SHARED: Final = "rdma/ib"


def _count(pod: PodView, container: Container) -> Found:
    amount = container.requested.get(_SHARED)
    if selected(pod.spec, _COREWEAVE) and amount is not None and quantity(amount) != 1:
        yield container.path_of_resource(_SHARED), f"container {container.name} requests {amount} {_SHARED}"


def _missing(pod: PodView, container: Container) -> Found:
    wiring = pod.manifests.wiring
    if not wiring or not pod.wired or not container.gpus or wiring.device_classes & pod.device_classes:
        return
    there = container.requested
    for name, amount in wiring.resources.items():
        if quantity(there.get(name)) != quantity(amount):
            has = f"requests {there[name]} {name}" if name in there else f"does not request {name}"
            yield (*container.path, "resources"), f"container {container.name} {has}, and the machine has {amount}"


def _none(pod: PodView) -> Found:
    known, main = pod.machines(), pod.main()
    # Machines with interfaces have a rule of their own, and with values the rest of this one compares.
    if not main or pod.wired or not pod.spans_nodes or not all(each.modes and not each.rdma for each in known):
        return
    if pod.attached or pod.spec.get("hostNetwork") is True or any(map(_has_devices, pod.containers())):
        return
    ways = sorted({name for each in known for name in each.resources})
    ways += ["a claim"] if any("dranet" in each.modes for each in known) else []
    what = f"the pod takes a whole node of {names(known)}, and has no network device ({' or '.join(ways)})"
    yield (*main.path, "resources"), what


def _has_devices(container: Container) -> bool:
    """Return whether a container has devices besides GPUs: their name is the cluster's choice."""
    is_privileged = mapping(container.spec.get("securityContext")).get("privileged") is True
    return is_privileged or any("/" in name and name != GPU for name in container.requested)


def _host_network(pod: PodView) -> Found:
    if pod.pod.ray and pod.spec.get("hostNetwork") is True:
        yield pod.path("hostNetwork"), "the pod of Ray has the network of its node"


RULES = (
    Problem(
        "network/devices-missing",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_FIRST_STEP,
        title="a GPU pod does not request all network devices of its machine",
        why="the pod gets no RDMA, and NCCL fails at the first step, or is many times slower over TCP",
        fix="let the post-renderer write the request: grpo-post-render --values FILE; or set network.mode to none",
        source="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
        check=joined(each_container(_missing), each_pod(_none)),
    ),
    Problem(
        "network/boolean-as-count",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.COSTS,
        title="a pod on CoreWeave requests another number of rdma/ib than 1",
        why="rdma/ib says yes or no there: 1 gives all devices, and a larger number only keeps other pods off the node",
        fix="write rdma/ib: 1, which gives the pod all InfiniBand devices of its node",
        source="https://docs.coreweave.com/products/networking/hpc-interconnect/use-gpudirect-rdma",
        check=each_container(_count),
    ),
    Problem(
        "network/ray-on-host-network",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_START,
        title="a pod of Ray uses the network of its node",
        why="Ray's ports are fixed: a second pod of Ray on the node, or a service of the node on one of them, stops it",
        fix="use a device plugin or claims for RDMA, or make sure that each node runs one pod of Ray",
        source="https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations",
        check=each_pod(_host_network),
    ),
)
