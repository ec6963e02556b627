"""A cluster as the defaults make it: it asks for a token, keeps strangers out, and gives no pod away."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import NewStack
from harness import jobs_api
from harness.helm import HelmError
from harness.image import Image
from harness.kube import Kube, KubectlError
from harness.rayhead import RAY, RayHeads
from harness.stack import Stack
from harness.waiting import until

OPEN: dict[str, Any] = {"ray": {"tokenAuth": {"enabled": False}, "networkPolicy": {"enabled": False}}}


def refused(token: str) -> bool:
    """Say whether the head answers nobody who shows this token."""
    try:
        jobs_api.ask("", token)
    except urllib.error.HTTPError as error:
        with error:
            assert error.code in (401, 403)
        return True
    return False


@pytest.fixture(params=["helm3", "helm4"])
def cluster(request: pytest.FixtureRequest, new_stack: NewStack, ray_heads: RayHeads) -> Iterator[Stack]:
    """A cluster of the defaults, and a real Ray head."""
    with ray_heads.running(new_stack("b200", request.param)) as stack:
        yield stack


def test_a_job_runs_with_the_token_and_a_stranger_is_refused(cluster: Stack, image: Image, ray_heads: RayHeads) -> None:
    """KubeRay submits the job over HTTP and shows the token that it has made."""
    image.behave(exit=0)
    assert refused("")
    assert refused("f" * 32)
    assert not refused(ray_heads.token)
    # The charts write the mode too, and KubeRay adds no second one.
    head = next(pod for pod in cluster.pods() if pod["metadata"]["labels"]["ray.io/node-type"] == "head")
    assert [entry["name"] for entry in head["spec"]["containers"][0]["env"]].count("RAY_AUTH_MODE") == 1
    cluster.install("grpo-job")
    cluster.until_job("SUCCEEDED")
    assert len(image.calls()) == 1
    cluster.uninstall("grpo-job")


@pytest.mark.parametrize("mode", ["existing", "ephemeral"])
def test_without_the_operators_token_no_head_starts(mode: str, new_stack: NewStack, tmp_path: Path) -> None:
    """KubeRay 1.5.0 or older drops authOptions. What is left of the pod must not become a cluster that is open."""
    stack = new_stack("b200", "helm3", job={"cluster": {"mode": mode}})
    layer, kind = ("raycluster", "RayCluster") if mode == "existing" else ("grpo-job", "RayJob")
    spec = next(item for item in stack.render(layer) if item["kind"] == kind)["spec"]
    head = spec.get("rayClusterSpec", spec)["headGroupSpec"]["template"]["spec"]["containers"][0]
    given = {entry["name"]: entry["value"] for entry in head["env"] if entry["name"].startswith("RAY_")}
    environment = {**given, "PATH": f"{RAY.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    command = [RAY, "start", "--head", "--num-cpus=1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Token authentication is enabled but no authentication token was found" in done.stderr


def test_a_run_with_its_own_cluster_has_its_own_token(new_stack: NewStack, ray_heads: RayHeads, image: Image) -> None:
    stack = new_stack("h200", "helm4", job={"cluster": {"mode": "ephemeral"}})
    image.behave(hold=True)
    ray_heads.namespaces.add(stack.namespace)
    try:
        stack.install("storage", "grpo-job")
        stack.until_job("RUNNING", seconds=90)
        assert refused("")
        assert not refused(ray_heads.token)
        image.finish()
        stack.until_job("SUCCEEDED")
        stack.uninstall("grpo-job", "storage")
    finally:
        ray_heads.namespaces.discard(stack.namespace)


@pytest.mark.parametrize("helm_name", ["helm3", "helm4"])
def test_the_token_comes_and_goes_only_with_an_idle_cluster(
    helm_name: str, new_stack: NewStack, ray_heads: RayHeads
) -> None:
    """The hook asks the head that runs, with the token or without, whatever the new release says."""
    closed = new_stack("b200", helm_name)
    ray_heads.without_workers.add(closed.namespace)
    with ray_heads.running(closed.with_values(**OPEN)) as stack:
        assert not refused("")
        with jobs_api.running("training-1"), pytest.raises(HelmError) as caught:
            closed.upgrade("raycluster", safe=False)
        assert "training-1 (RUNNING)" in "\n".join(caught.value.__notes__)
        before = {pod["metadata"]["uid"] for pod in stack.pods()}
        closed.upgrade("raycluster", safe=False)
        until(lambda: len(stack.pods()) == 3 and not before & uids(stack), "new pods", 60)
        ray_heads.until_up(stack.namespace)
        until(lambda: refused(""), "a head that asks for the token", 60)
        with jobs_api.running("training-2", ray_heads.token), pytest.raises(HelmError) as caught:
            stack.upgrade("raycluster", safe=False)
        assert "training-2 (RUNNING)" in "\n".join(caught.value.__notes__)


def uids(stack: Stack) -> set[str]:
    """Return the identities of the Ray pods."""
    return {pod["metadata"]["uid"] for pod in stack.pods()}


def test_no_pod_of_a_living_cluster_is_evicted(new_stack: NewStack, kube: Kube) -> None:
    """As a drain for a node upgrade asks; an autoscaler reads the annotation."""
    stack = new_stack("b200")
    stack.install("storage", "raycluster")
    stack.until_ready()

    def budget() -> dict[str, Any]:
        return dict(kube.get("poddisruptionbudget", stack.cluster, stack.namespace)["status"])

    until(lambda: budget().get("currentHealthy") == 3, "a budget that knows its pods", seen=budget)
    for pod in stack.pods():
        name = pod["metadata"]["name"]
        assert pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{stack.namespace}/pods/{name}/eviction"
        with pytest.raises(KubectlError, match="disruption budget"):
            kube.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    stack.uninstall("raycluster", "storage")
