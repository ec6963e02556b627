"""Devices of other clouds' networks: how much of them, and in one way only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping, selected
from postrender.rules.objects.pods.podspec import Container, Judged, device_classes, each_container, each_pod
from postrender.rules.rule import OBJECTS, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postrender.rules.objects.pods.podspec import Found

_COREWEAVE: Final = "node.coreweave.cloud/type"
_SHARED: Final = "rdma/ib"
_EFA: Final = "vpc.amazonaws.com/efa"
_EFA_CLASS: Final = "efa.networking.k8s.aws"


def _limits(container: Container) -> Mapping[str, Any]:
    resources = mapping(container.spec.get("resources"))
    return {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}


def _path(container: Container, name: str) -> tuple[str | int, ...]:
    resources = mapping(container.spec.get("resources"))
    part = "limits" if name in mapping(resources.get("limits")) else "requests"
    return (*container.path, "resources", part, name)


def _count(pod: Judged, container: Container) -> Found:
    amount = _limits(container).get(_SHARED)
    if selected(pod.spec, _COREWEAVE) and amount is not None and str(amount) != "1":
        yield _path(container, _SHARED), f"container {container.name} requests {amount} {_SHARED}"


def _missing(pod: Judged, container: Container) -> Found:
    wiring = pod.manifests.wiring
    if not wiring or not pod.wired or not container.gpus:
        return
    there = _limits(container)
    for name, amount in wiring.resources.items():
        if str(there.get(name)) != amount:
            has = f"requests {there[name]} {name}" if name in there else f"does not request {name}"
            yield (*container.path, "resources"), f"container {container.name} {has}, and the machine has {amount}"


def _both(pod: Judged, container: Container) -> Found:
    if _EFA in _limits(container) and _EFA_CLASS in device_classes(pod):
        yield _path(container, _EFA), f"container {container.name} requests {_EFA}, and the pod claims {_EFA_CLASS}"


def _host_network(pod: Judged) -> Found:
    if pod.pod.ray and pod.spec.get("hostNetwork") is True:
        yield pod.path("hostNetwork"), "the pod of Ray has the network of its node"


RULES = (
    Rule(
        "network/devices-missing",
        target=OBJECTS,
        severity=ERROR,
        title="a GPU pod requests the network devices of the values",
        why="the pod gets no RDMA, and NCCL fails at the first step, or is many times slower over TCP",
        fix="let the post-renderer write the request: grpo post-render -f VALUES; or set network.mode to none",
        source="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
        fact="clouds/T1",
        check=each_container(_missing),
    ),
    Rule(
        "network/boolean-as-count",
        target=OBJECTS,
        severity=ERROR,
        title="a pod on CoreWeave requests one rdma/ib",
        why="rdma/ib says yes or no there; no node offers more than the cluster allows, and the pod may stay pending",
        fix="write rdma/ib: 1, which gives the pod all InfiniBand devices of its node",
        source="https://docs.coreweave.com/products/networking/hpc-interconnect/use-gpudirect-rdma",
        fact="clouds/T1",
        check=each_container(_count),
    ),
    Rule(
        "network/plugin-and-claim",
        target=OBJECTS,
        severity=ERROR,
        title="a pod has EFA devices from the device plugin or from claims",
        why="plugin and driver must not manage the same device on a node; one of the two requests is never met",
        fix="set network.mode to devices or dranet, and remove the other request",
        source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html",
        fact="clouds/T7",
        check=each_container(_both),
    ),
    Rule(
        "network/ray-on-host-network",
        target=OBJECTS,
        severity=WARNING,
        title="pods of Ray have a network of their own",
        why="Ray's ports are fixed: a second pod of Ray on the node, or a service of the node on one of them, stops it",
        fix="use a device plugin or claims for RDMA, or make sure that each node runs one pod of Ray",
        source="https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations",
        fact="clouds/T12",
        check=each_pod(_host_network),
    ),
)
