"""Machines of other clouds: the real scheduler puts the workers on nodes that offer what the cloud's nodes offer."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import Machines, NewStack
from harness.devices import allocated, device_class, resource_slice
from harness.kube import Kube, Manifest
from harness.nodes import Profile
from harness.stack import ONE_VOLUME, Stack, merge
from harness.waiting import until

CLAIM: dict[str, Any] = merge(ONE_VOLUME, {"storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "shared"}}}})


def volume(namespace: str) -> list[Manifest]:
    """Describe a claim that several nodes mount, and its volume."""
    both = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    size = {"storage": "1Ti"}
    name, nfs = f"{namespace}-shared", {"server": "10.0.0.9", "path": "/"}
    bound = {**both, "volumeName": name, "resources": {"requests": size}}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {**both, "capacity": size, "nfs": nfs},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shared", "namespace": namespace},
            "spec": bound,
        },
    ]


def installed(new_stack: NewStack, kube: Kube, name: str, **values: Any) -> Stack:
    """Install a stack for a machine on a claim that exists, and wait for its cluster."""
    stack = new_stack(name, **merge(CLAIM, values))
    kube.create(volume(stack.namespace))
    stack.install("network", "storage", "raycluster")
    stack.until_ready()
    return stack


@pytest.mark.parametrize("name", ["aks-h200", "coreweave-b200", "eks-h200", "infiniband-h100", "oci-b200"])
def test_workers_get_the_devices_of_the_plugin(
    name: str, machines: Machines, new_stack: NewStack, kube: Kube, profiles: dict[str, Profile]
) -> None:
    nodes = machines(name)
    stack = installed(new_stack, kube, name)
    head, *workers = stack.pods()
    assert head["spec"]["nodeName"].startswith("cpu-")
    assert {worker["spec"]["nodeName"] for worker in workers} == set(nodes)
    for worker in workers:
        container = worker["spec"]["containers"][0]
        assert profiles[name].values["resources"].items() <= container["resources"]["limits"].items()
        assert "IPC_LOCK" in container["securityContext"]["capabilities"]["add"]
    stack.uninstall("raycluster", "storage", "network")


def test_workers_claim_the_efa_devices_of_their_node(machines: Machines, new_stack: NewStack, kube: Kube) -> None:
    """By the class of AWS's driver."""
    nodes = machines("eks-b200")
    kube.create([device_class("efa.networking.k8s.aws"), *(resource_slice(node) for node in nodes)])
    try:
        stack = installed(new_stack, kube, "eks-b200", network={"mode": "dranet"})
        assert {worker["spec"]["nodeName"] for worker in stack.pods()[1:]} == set(nodes)
        claims = allocated(kube, stack.namespace)
        assert [len(claim["status"]["allocation"]["devices"]["results"]) for claim in claims] == [8, 8]
        requests = stack.pods()[1]["spec"]["containers"][0]["resources"]["requests"]
        assert "vpc.amazonaws.com/efa" not in requests
        stack.uninstall("raycluster", "storage", "network")
    finally:
        for node in nodes:
            kube.delete("resourceslice", f"{node}-rdma")
        kube.delete("deviceclass", "efa.networking.k8s.aws")


def test_a_count_where_the_resource_is_a_boolean_is_seen_by_the_scheduler(
    machines: Machines, new_stack: NewStack, kube: Kube
) -> None:
    machines("coreweave-h200")
    stack = new_stack("coreweave-h200", **CLAIM).with_values(accelerator={"resources": {"rdma/ib": "8"}})
    kube.create(volume(stack.namespace))
    stack.install("network", "storage", "raycluster")
    until(lambda: "Insufficient rdma/ib" in kube.events(stack.namespace), "a worker that no node takes")
    stack.uninstall("raycluster", "storage", "network")
