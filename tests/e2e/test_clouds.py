"""Machines of other clouds: the real scheduler puts the workers on nodes that offer what the cloud's nodes offer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Machines, NewForeign, NewStack
from harness.devices import AWS, DRANET, allocated, machines_of, named, published, results
from harness.foreign import RELEASE, pods_of, until_ready
from harness.kube import Kube, Manifest
from harness.nodes import Profile
from harness.postrenderer import PostRenderer
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


@pytest.mark.parametrize(
    "name",
    ["aks-h200", "coreweave-b200", pytest.param("eks-h200", marks=pytest.mark.ci), "infiniband-h100", "oci-b200"],
)
def test_workers_get_the_devices_of_the_device_plugin(
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


@pytest.mark.parametrize("name", machines_of("eks-"))
def test_workers_claim_the_efa_devices_of_their_node(
    name: str, machines: Machines, new_stack: NewStack, kube: Kube
) -> None:
    """By the class of AWS's driver, which also publishes other RDMA devices of a p6-b200."""
    nodes = machines(name)
    with published(kube, name, nodes, name=AWS):
        stack = installed(new_stack, kube, name, network={"mode": "dranet"})
        assert {worker["spec"]["nodeName"] for worker in stack.pods()[1:]} == set(nodes)
        claims = allocated(kube, stack.namespace)
        models = named(name, "dra.net/pciDevice")
        efa = sorted(device for device, model in models.items() if model == "Elastic Fabric Adapter (EFA)")
        assert [sorted(results(claim)) for claim in claims] == [efa, efa]
        requests = stack.pods()[1]["spec"]["containers"][0]["resources"]["requests"]
        assert "vpc.amazonaws.com/efa" not in requests
        stack.uninstall("raycluster", "storage", "network")


@pytest.mark.parametrize("name", machines_of("aks-", "oci-"))
def test_workers_claim_the_rdma_devices_of_their_node(
    name: str, machines: Machines, new_stack: NewStack, kube: Kube
) -> None:
    """By a class of every device of DRANET, and the profile's own condition."""
    nodes = machines(name)
    with published(kube, name, nodes, name=DRANET):
        # No driver of NVIDIA makes the claims of a ComputeDomain here.
        values = {"accelerator": {"nvlinkDomainNodes": None}, "images": {"training": {"arm64": True}}}
        stack = new_stack(name, **CLAIM).with_values(**values)
        kube.create(volume(stack.namespace))
        stack.install("network", "storage", "raycluster")
        stack.until_ready()
        assert {worker["spec"]["nodeName"] for worker in stack.pods()[1:]} == set(nodes)
        wanted = sorted(device for device, has in named(name, "dra.net/rdma").items() if has)
        assert [sorted(results(claim)) for claim in allocated(kube, stack.namespace)] == [wanted, wanted]
        stack.uninstall("raycluster", "storage", "network")


def test_the_scheduler_respects_a_constraint_on_shared_device_attributes(
    machines: Machines, new_stack: NewStack, kube: Kube
) -> None:
    """Four devices of a p5.48xlarge have one PCIe root: four of one root and processor are found, and five are not."""
    nodes = machines("eks-h100")
    claim = {
        "count": 4,
        "matchAttribute": "resource.kubernetes.io/pcieRoot",
        "selector": 'device.attributes["dra.net"].numaNode == 1',
    }
    values: dict[str, Any] = {"network": {"mode": "dranet"}, "accelerator": {"claims": {"efa": claim}}}
    with published(kube, "eks-h100", nodes, name=AWS):
        stack = new_stack("eks-h100", **CLAIM).with_values(**values)
        kube.create(volume(stack.namespace))
        stack.install("network", "storage", "raycluster")
        stack.until_ready()
        roots, numa = named("eks-h100", "resource.kubernetes.io/pcieRoot"), named("eks-h100", "dra.net/numaNode")
        claims = [results(claim) for claim in allocated(kube, stack.namespace)]
        assert [len(found) for found in claims] == [4, 4]
        for found in claims:
            assert len({roots[device] for device in found}) == 1
            assert {numa[device] for device in found} == {1}
        stack.uninstall("raycluster", "storage", "network")
        refused = new_stack("eks-h100", **CLAIM).with_values(**values)
        refused = refused.with_values(accelerator={"claims": {"efa": {"count": 5}}})
        kube.create(volume(refused.namespace))
        refused.install("network", "storage", "raycluster")
        until(lambda: "cannot allocate all claims" in kube.events(refused.namespace), "a worker that no node takes")
        assert allocated(kube, refused.namespace) == []
        refused.uninstall("raycluster", "storage", "network")


@pytest.mark.parametrize(("name", "amount"), [("coreweave-h200", "65"), ("eks-h200", "17"), ("aks-h200", "9")])
def test_a_worker_requesting_more_devices_than_its_machine_has_stays_pending(
    name: str, amount: str, machines: Machines, new_stack: NewStack, kube: Kube, profiles: dict[str, Profile]
) -> None:
    """CoreWeave's nodes offer rdma/ib to 64 pods: one of them gives all devices (network/more-devices-than-machine)."""
    machines(name)
    (resource,) = profiles[name].values["resources"]
    stack = new_stack(name, **CLAIM).with_values(accelerator={"resources": {resource: amount}})
    kube.create(volume(stack.namespace))
    stack.install("network", "storage", "raycluster")
    until(lambda: f"Insufficient {resource}" in kube.events(stack.namespace), "a worker that no node takes")
    stack.uninstall("raycluster", "storage", "network")


@pytest.mark.parametrize(("resource", "more"), [("cpu", "193"), ("memory", "1900Gi")])
def test_a_worker_larger_than_its_machine_stays_pending(
    resource: str, more: str, machines: Machines, new_stack: NewStack, kube: Kube
) -> None:
    """EC2's own numbers are 192 CPUs and 2048 GiB: Kubernetes has less to give."""
    machines("eks-b200")
    stack = new_stack("eks-b200", **CLAIM).with_values(accelerator={"worker": {resource: more}})
    kube.create(volume(stack.namespace))
    stack.install("network", "storage", "raycluster")
    until(lambda: f"Insufficient {resource}" in kube.events(stack.namespace), "a worker that no node takes")
    stack.uninstall("raycluster", "storage", "network")


def network_of(pod: Manifest) -> dict[str, Any]:
    """Return what a worker has of its cloud, and nothing that its author may choose."""
    spec, ray = pod["spec"], pod["spec"]["containers"][0]
    limits = {name: str(amount) for name, amount in ray["resources"]["limits"].items() if "/" in name}
    nccl = {each["name"]: each["value"] for each in ray["env"] if each["name"].startswith("NCCL_NET")}
    return {"limits": limits, "nodeSelector": spec["nodeSelector"], "nccl": nccl}


COREWEAVE = {
    "limits": {"nvidia.com/gpu": "8", "rdma/ib": "1"},
    "nodeSelector": {"node.coreweave.cloud/type": "gd-8xh200ib-i128"},
    "nccl": {"NCCL_NET": "IB", "NCCL_NET_PLUGIN": "none"},
}
EKS = {
    "limits": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "16"},
    "nodeSelector": {"node.kubernetes.io/instance-type": "p5en.48xlarge"},
    "nccl": {"NCCL_NET": "Libfabric", "NCCL_NET_PLUGIN": "ofi"},
}


def test_the_kuberay_chart_runs_on_coreweave_with_the_post_renderer(
    machines: Machines, new_stack: NewStack, new_foreign: NewForeign
) -> None:
    """The chart knows no cloud, and the post-renderer brings what this one needs; the release moves to AWS and back."""
    nodes = machines("coreweave-h200")
    ours = new_stack("coreweave-h200", **CLAIM)
    foreign = new_foreign(ours)
    foreign.install()
    try:
        head, *workers = until_ready(ours, foreign.cluster)
        assert head["spec"]["nodeName"].startswith("cpu-")
        assert {worker["spec"]["nodeName"] for worker in workers} == set(nodes)
        for worker in workers:
            assert network_of(worker) == COREWEAVE
            assert worker["spec"]["containers"][0]["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
        stored, spec = foreign.stored(), foreign.get()["spec"]
        elsewhere = replace(foreign, ours=replace(ours, accelerator="eks-h200"))
        elsewhere.upgrade()
        assert network_of(elsewhere.get()["spec"]["workerGroupSpecs"][0]["template"]) == EKS
        foreign.upgrade()
        assert (foreign.stored(), foreign.get()["spec"]) == (stored, spec)
    finally:
        ours.helm.uninstall(RELEASE, ours.namespace)


@pytest.mark.parametrize(("profile", "wanted"), [("coreweave-h200", COREWEAVE), ("eks-h200", EKS)])
def test_a_cluster_for_efa_moves_to_another_cloud_and_back(
    profile: str,
    wanted: dict[str, Any],
    machines: Machines,
    new_stack: NewStack,
    renderer: PostRenderer,
    kube: Kube,
) -> None:
    """The author takes the lines of the other cloud out, which are named; the network of this one comes by itself."""
    nodes = machines(profile)
    stack = new_stack(profile, **CLAIM)
    text = (Path(__file__).parent / "foreign/efa.yaml").read_text()
    options = [*stack.options(), "--on-conflict=replace"]
    if wanted is COREWEAVE:
        for line, rule in (
            (r" +nodeSelector:\n.*p5en.*\n", "nodes/another-accelerator"),
            (r", vpc\.amazonaws\.com/efa: 16", "network/device-of-another-cloud"),
        ):
            refused = renderer.pipe(text, *options)
            assert (refused.returncode, refused.stdout, f"[{rule}]" in refused.stderr) == (1, "", True), refused.stderr
            text = re.sub(line, "", text)
    wired = renderer.pipe(text, *options)
    assert (wired.returncode, wired.stderr) == (0, "")
    kube.run("apply", "--validate=strict", "-n", stack.namespace, "-f", "-", stdin=wired.stdout)
    try:
        _, *workers = until_ready(stack, "efa")
        assert {worker["spec"]["nodeName"] for worker in workers} == set(nodes)
        assert [network_of(worker) for worker in workers] == [wanted, wanted]
    finally:
        kube.delete("raycluster", "efa", stack.namespace)
        until(lambda: not pods_of(stack, "efa"), "pods gone")


def test_workers_run_on_spot_nodes_of_another_cloud(machines: Machines, new_stack: NewStack, kube: Kube) -> None:
    """By the block of docs/howto/clouds.md, which names AKS's label and taint."""
    nodes = machines("aks-h200")
    spot = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
    kube.run("label", "node", *nodes, "{key}={value}".format(**spot))
    kube.run("taint", "node", *nodes, "{key}={value}:{effect}".format(**spot))
    accelerator = {
        "nodeSelector": {spot["key"]: "spot"},
        "tolerations": {spot["key"]: {"value": "spot", "effect": "NoSchedule"}},
    }
    stack = new_stack("aks-h200", **CLAIM).with_values(accelerator=accelerator)
    kube.create(volume(stack.namespace))
    stack.install("network", "storage", "raycluster")
    stack.until_ready()
    assert {worker["spec"]["nodeName"] for worker in stack.pods()[1:]} == set(nodes)
    stack.uninstall("raycluster", "storage", "network")
