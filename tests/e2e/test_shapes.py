"""Clusters of other shapes than the recipe's: a head with GPUs, and a cluster that is not Google's."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import Machines, NewStack
from harness import suite
from harness.kube import Kube, Manifest
from harness.nodes import Profile
from harness.stack import ONE_VOLUME, merge
from harness.waiting import until

CLAIM = {"data": {"gcsfuse": None, "pvc": {"storageClassName": "nfs", "size": "10Gi"}}}
ELSEWHERE: dict[str, Any] = merge(ONE_VOLUME, {"storage": CLAIM})


def gpus(pod: Manifest) -> str:
    """Return how many GPUs the Ray container of a pod has."""
    return str(pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", "0"))


def test_a_head_with_gpus_occupies_a_gpu_node(new_stack: NewStack) -> None:
    stack = new_stack("h200", ray={"head": {"gpus": {"enabled": True}}, "workers": {"replicas": 1}})
    stack.install("storage", "raycluster")
    stack.until_ready()
    budget = stack.kube.get("poddisruptionbudget", stack.cluster, stack.namespace)
    assert budget["spec"]["minAvailable"] == 2
    pods = stack.pods()
    assert [gpus(pod) for pod in pods] == ["8", "8"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    assert all(pod["spec"]["nodeName"].startswith("h200-") for pod in pods)
    stack.uninstall("raycluster", "storage")


def test_a_stack_installs_on_a_cluster_outside_gke(new_stack: NewStack) -> None:
    """The claim of a dynamic class stays unbound here, so the pods would wait: the objects are what is judged."""
    stack = new_stack("coreweave-h200", **ELSEWHERE)
    stack.install("network", "storage", "raycluster")
    until(lambda: len(stack.pods()) == 3, "head and two workers")
    head, *workers = stack.pods()
    assert workers[0]["spec"]["nodeSelector"] == {"node.coreweave.cloud/type": "gd-8xh200ib-i128"}
    assert [gpus(pod) for pod in (head, *workers)] == ["0", "8", "8"]
    stack.uninstall("raycluster", "storage", "network")


# The nodes of b200 and h200 are always there; workers of gb300 claim their network, and those of cpu have no GPU.
TESTED_ELSEWHERE = {"b200", "h200", "gb300", "cpu"}
PROFILES = sorted({file.stem for file in (suite.REPOSITORY / "values/accelerators").glob("*.yaml")} - TESTED_ELSEWHERE)


@pytest.mark.parametrize("name", PROFILES)
def test_a_worker_of_every_profile_can_be_scheduled_on_its_machine(
    name: str, machines: Machines, new_stack: NewStack, kube: Kube, profiles: dict[str, Profile]
) -> None:
    """The pod of KubeRay without its claims and Secrets, as only the place is asked for."""
    nodes = machines(name)
    profile = profiles[name].values
    stack = new_stack(name, **({} if profiles[name].is_google else ELSEWHERE))
    stack = stack.with_values(images={"training": {"arm64": True}})
    if "nvlinkDomainNodes" in profile:
        stack = stack.with_values(accelerator={"nvlinkDomainNodes": None})
    if "multiNetwork" in profile["refuses"]:
        stack = stack.with_values(network={"mode": "none"})
    (cluster,) = [item for item in stack.render("raycluster") if item["kind"] == "RayCluster"]
    template = cluster["spec"]["workerGroupSpecs"][0]["template"]
    volumes = [
        {"name": each["name"], "emptyDir": {}} if "persistentVolumeClaim" in each else each
        for each in template["spec"]["volumes"]
    ]
    spec = {**template["spec"], "volumes": volumes, "serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, "spec": spec}
    kube.create([pod], stack.namespace)
    until(lambda: kube.get("pod", "worker", stack.namespace)["spec"].get("nodeName") in nodes, "a place for the worker")
    kube.delete("pod", "worker", stack.namespace)
