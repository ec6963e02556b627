"""A cluster as the defaults make it: it asks for a token, and gives no pod away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import NewStack
from harness.kube import Kube, KubectlError
from harness.stack import Stack
from harness.waiting import until

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def cluster(new_stack: NewStack) -> Iterator[Stack]:
    """A cluster that is ready."""
    stack = new_stack("b200")
    stack.install("storage", "raycluster")
    stack.until_ready()
    yield stack
    stack.uninstall("raycluster", "storage")


def test_every_pod_gets_the_token_exactly_once(cluster: Stack, kube: Kube) -> None:
    """KubeRay makes it. The charts write the mode too, and KubeRay adds no second one."""
    assert kube.get("secret", cluster.cluster, cluster.namespace)["data"]["auth_token"]
    for pod in cluster.pods():
        names = [entry["name"] for entry in pod["spec"]["containers"][0]["env"]]
        assert (names.count("RAY_AUTH_MODE"), names.count("RAY_AUTH_TOKEN")) == (1, 1)


def test_no_pod_of_a_running_cluster_can_be_evicted(cluster: Stack, kube: Kube) -> None:
    """As a drain for a node upgrade asks; an autoscaler reads the annotation."""

    def budget() -> dict[str, Any]:
        return dict(kube.get("poddisruptionbudget", cluster.cluster, cluster.namespace)["status"])

    until(lambda: budget().get("currentHealthy") == 3, "a budget that knows its pods", seen=budget)
    for pod in cluster.pods():
        name = pod["metadata"]["name"]
        assert pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{cluster.namespace}/pods/{name}/eviction"
        with pytest.raises(KubectlError, match="disruption budget"):
            kube.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def test_the_token_is_replaced_as_the_page_says(cluster: Stack, kube: Kube) -> None:
    """docs/howto/isolation.md: the operator makes a new one, and the pods get it when they start again."""

    def token() -> str:
        found = kube.find("secret", cluster.cluster, cluster.namespace)
        return found["data"]["auth_token"] if found else ""

    before, old = token(), {pod["metadata"]["name"] for pod in cluster.pods()}
    kube.delete("secret", cluster.cluster, cluster.namespace)
    until(lambda: token() not in ("", before), "a new token")
    kube.run("delete", "pods", "--selector", f"ray.io/cluster={cluster.cluster}", "--namespace", cluster.namespace)
    until(
        lambda: len(cluster.pods()) == 3 and not old & {pod["metadata"]["name"] for pod in cluster.pods()},
        "three new pods",
        60,
    )
    cluster.until_ready(60)
    for pod in cluster.pods():
        (entry,) = [each for each in pod["spec"]["containers"][0]["env"] if each["name"] == "RAY_AUTH_TOKEN"]
        assert entry["valueFrom"]["secretKeyRef"] == {"name": cluster.cluster, "key": "auth_token"}
