"""Clusters of other shapes than the recipe's: a head with GPUs, and a cluster that is not Google's."""

from __future__ import annotations

from typing import Any

from conftest import NewStack
from harness.kube import Manifest
from harness.stack import ONE_VOLUME, merge
from harness.waiting import until

CLAIM = {"data": {"gcsfuse": None, "pvc": {"storageClassName": "nfs", "size": "10Gi"}}}
ELSEWHERE: dict[str, Any] = merge(ONE_VOLUME, {"storage": CLAIM})


def gpus(pod: Manifest) -> str:
    """Return how many GPUs the Ray container of a pod has."""
    return str(pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", "0"))


def test_a_head_with_gpus_takes_a_gpu_node(new_stack: NewStack) -> None:
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


def test_a_cluster_that_is_not_googles(new_stack: NewStack) -> None:
    """The claim of a dynamic class stays unbound here, so the pods would wait: the objects are what is judged."""
    stack = new_stack("coreweave-h200", **ELSEWHERE)
    stack.install("network", "storage", "raycluster")
    until(lambda: len(stack.pods()) == 3, "head and two workers")
    head, *workers = stack.pods()
    assert workers[0]["spec"]["nodeSelector"] == {"node.coreweave.cloud/type": "gd-8xh200ib-i128"}
    assert [gpus(pod) for pod in (head, *workers)] == ["0", "8", "8"]
    stack.uninstall("raycluster", "storage", "network")
