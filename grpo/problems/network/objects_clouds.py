"""Network devices of other clouds: how many, and for which pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container, each_pod
from postrender.finding import ERROR, WARNING
from postrender.gate.manifests import joined
from postrender.manifests.pods import GPU, mapping, names, selected
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import profiles
from postrender.values.profiles import is_flag
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from grpo.problems.pods.podspec import Found
    from postrender.values.profiles import Machine

_COREWEAVE: Final = "node.coreweave.cloud/type"
_SHARED: Final = "rdma/ib"
# What each of its machines with InfiniBand offers, of which 1 gives all devices.
_ON_COREWEAVE: Final = 64


def _above(pod: PodView, container: Container) -> Found:
    known = pod.machines()
    for name, amount in container.requested.items():
        asked, most = quantity(amount), max((_most(pod, each, name) for each in known), default=0)
        if name != GPU and asked is not None and 0 < most < asked:
            yield container.path_of_resource(name), f"{_asks(container, name)}, and {names(known)} has {most}"


def _most(pod: PodView, machine: Machine, name: str) -> int:
    """Return how much of a resource a machine has for pods, 0 if it is not known."""
    count = profiles.devices(machine.type).get(name, 0)
    if not is_flag(count, machine.gpus):
        return count
    return _ON_COREWEAVE if name == _SHARED and selected(pod.spec, _COREWEAVE) else 0


def _asks(container: Container, name: str) -> str:
    return f"container {container.name} requests {container.requested[name]} {name}"


def _missing(pod: PodView, container: Container) -> Found:
    wiring = pod.manifests.wiring
    if not wiring or not pod.wired or not container.gpus or wiring.device_classes & pod.device_classes:
        return
    for name, amount in wiring.resources.items():
        if not wiring.is_enough(name, container.requested.get(name)):
            has = (
                _asks(container, name)
                if name in container.requested
                else f"container {container.name} does not request {name}"
            )
            yield (*container.path, "resources"), f"{has}, and the machine has {amount}"


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
    """Return whether a container has devices other than GPUs, whose resource names depend on the cluster."""
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
        "network/more-devices-than-machine",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a pod requests more network devices than its machine has",
        why="no node has so many, and the pod stays pending",
        fix="write the number of the machine's profile (accelerator.resources); for CoreWeave's rdma/ib, 1 gives all",
        source="cluster-autoscaler/cloudprovider/coreweave/coreweave_instance_types.go at 01ff7b68",
        check=each_container(_above),
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
