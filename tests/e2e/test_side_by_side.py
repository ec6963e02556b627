"""The same stack in two namespaces and two stacks in one: each has objects of its own, except what is cluster-scoped.

Helm refuses what belongs to another release before it writes anything, and says whose it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from conftest import NewStack
from harness.helm import Helm, HelmError
from harness.kube import Kube
from harness.stack import Stack
from harness.waiting import until

SMALL: dict[str, Any] = {"ray": {"workers": {"replicas": 1}}}
KINDS = "rayclusters,pods,services,serviceaccounts,persistentvolumeclaims,networkpolicies,poddisruptionbudgets"


@pytest.fixture(scope="module")
def stacks(new_stack: NewStack) -> Iterator[list[Stack]]:
    """Gemma here, Gemma in another namespace, and a second stack beside the first; all clusters are ready."""
    here = new_stack("b200", "helm4", **SMALL)
    there = new_stack("h200", "helm3", **SMALL)
    beside = new_stack("b200", "helm4", here.namespace, **SMALL).with_values(stack={"name": "second"})
    installed = [here, there, beside]
    try:
        for stack in installed:
            stack.install("storage", "raycluster")
        for stack in installed:
            stack.until_ready()
        yield installed
    finally:
        for stack in (here, there):
            stack.uninstall_all()


def identities(kube: Kube, stack: Stack) -> dict[str, str]:
    """Return the identity of each object of a stack: what carries its name, and its pods."""
    shape = r"jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid}{'\n'}{end}"
    lines = kube.run("get", KINDS, "-n", stack.namespace, "-o", shape).splitlines()
    found = dict(line.split() for line in lines)
    return {name: uid for name, uid in found.items() if name.split("/")[1].startswith(stack.name)}


def has_two(kube: Kube, stack: Stack) -> bool:
    """Return whether the disruption budget of a stack sees two pods."""
    return bool(kube.get("poddisruptionbudget", stack.cluster, stack.namespace)["status"]["currentHealthy"] == 2)


def test_each_stack_has_its_own_pods(stacks: list[Stack], kube: Kube) -> None:
    nodes = []
    for stack in stacks:
        pods = kube.list("pods", stack.namespace, f"ray.io/cluster={stack.cluster}")
        assert len(pods) == 2
        volumes = [volume for pod in pods for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
        assert {volume["persistentVolumeClaim"]["claimName"] for volume in volumes} == {
            f"{stack.name}-data",
            f"{stack.name}-weights",
        }
        assert {pod["spec"]["serviceAccountName"] for pod in pods} == {stack.name}
        nodes += [pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["labels"]["ray.io/node-type"] == "worker"]
        # A selector that reached another stack's pods would count four.
        until(partial(has_two, kube, stack), "a budget of two pods")
    assert len(set(nodes)) == 3


def test_uninstalling_one_stack_leaves_the_others_alone(stacks: list[Stack], kube: Kube) -> None:
    here, *others = stacks
    before = [identities(kube, stack) for stack in others]
    assert all(len(found) >= 8 for found in before), before
    here.uninstall("raycluster", "storage")
    kept = {f"PersistentVolumeClaim/{here.name}-{name}" for name in ("data", "weights")}
    kept.add(f"ServiceAccount/{here.name}")
    until(lambda: set(identities(kube, here)) == kept, "only storage left", seen=lambda: identities(kube, here))
    assert [identities(kube, stack) for stack in others] == before
    for stack in others:
        stack.until_ready()
        claim = kube.get("persistentvolumeclaim", f"{stack.name}-data", stack.namespace)
        assert claim["status"]["phase"] == "Bound"


def refused(stack: Stack, layer: str, release: str, namespace: str) -> None:
    """Install a layer, and expect Helm to name the release that has its objects, and that release's namespace."""
    with pytest.raises(HelmError, match="exists and cannot be imported into the current release") as refusal:
        stack.install(layer)
    message = str(refusal.value)
    assert f'"meta.helm.sh/release-name" must equal "{stack.release(layer)}": current value is "{release}"' in message
    assert f'current value is "{namespace}"' in message
    assert stack.release(layer) not in stack.helm.run("list", "--namespace", stack.namespace)


def networks(kube: Kube) -> dict[str, str]:
    """Return the identity of each network."""
    found = kube.list("networks.networking.gke.io")
    return {network["metadata"]["name"]: network["metadata"]["uid"] for network in found}


def test_a_second_release_of_the_same_networks_is_refused(
    new_stack: NewStack, helms: dict[str, Helm], kube: Kube
) -> None:
    """Networks are the cluster's. Those of another machine family get a prefix."""
    owner = new_stack("b200")
    owner.install("network")
    before = networks(kube)
    second = new_stack("h200", stack={"name": "second"})
    other = second.with_values(network={"names": {"prefix": "h200-"}})
    for helm in helms.values():
        refused(second.with_helm(helm), "network", f"{owner.name}-network", owner.namespace)
    assert networks(kube) == before
    other.install("network")
    owner.uninstall("network")
    assert list(networks(kube)) == [f"h200-{name}" for name in before]
    other.uninstall("network")


def test_only_one_release_can_create_a_storage_class(new_stack: NewStack) -> None:
    """The others name it, without `lustre`."""
    claim: dict[str, Any] = {"storageClassName": "shared-lustre", "size": "9000Gi"}
    tier = {"perUnitStorageThroughput": "1000", "network": "projects/p/global/networks/vpc", "zone": "us-central1-a"}
    values = {"storage": {"data": {"gcsfuse": None, "pvc": {**claim, "lustre": tier}}}}
    first = new_stack(**values)
    second = new_stack(stack={"name": "second"}, **values)
    first.install("storage")
    refused(second, "storage", f"{first.name}-storage", first.namespace)
    user = second.with_values(storage={"data": {"pvc": {"lustre": None}}})
    user.install("storage")
    first.uninstall("storage")
    user.uninstall("storage")
