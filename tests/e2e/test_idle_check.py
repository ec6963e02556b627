"""An upgrade or a rollback that would replace pods under a running job is refused, and nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness import jobs_api
from harness.helm import HelmError
from harness.rayhead import RayHeads
from harness.stack import Stack
from harness.waiting import until

OTHER = {"ray": {"env": {"A_VARIABLE": {"value": "not-to-be-shown"}}}}


@pytest.fixture(params=["helm3", "helm4"])
def cluster(request: pytest.FixtureRequest, new_stack: NewStack, ray_heads: RayHeads) -> Iterator[Stack]:
    """A cluster with a real head; its workers are pods that run nothing."""
    stack = new_stack("b200", request.param)
    ray_heads.without_workers.add(stack.namespace)
    with ray_heads.running(stack):
        yield stack


def uids(stack: Stack) -> set[str]:
    """Return the identities of the Ray pods."""
    return {pod["metadata"]["uid"] for pod in stack.pods()}


def refusal(error: HelmError) -> str:
    """Return what the pod of the hook said, which the harness adds to Helm's error."""
    assert "idle-check" in str(error)
    return "\n".join(error.__notes__)


def test_a_running_job_keeps_its_pods(cluster: Stack, ray_heads: RayHeads) -> None:
    changed = cluster.with_values(**OTHER)
    before = uids(cluster)
    with jobs_api.running("training-1", ray_heads.token):
        assert cluster.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("raycluster") == [
            "grpo: the pods of the cluster stay as they are\n"
        ]
        with pytest.raises(HelmError) as caught:
            changed.upgrade("raycluster", safe=False)
        said = refusal(caught.value)
        assert said.startswith("grpo: training-1 (RUNNING) runs on RayCluster gemma-ray, and this upgrade would end it")
        assert "It changes: environment of the head, environment of the workers. " in said
        assert "not-to-be-shown" not in said
        with pytest.raises(HelmError) as caught:
            cluster.with_values(ray={"workers": {"replicas": 1}}).upgrade("raycluster")
        assert "It changes: 2 workers become 1. " in refusal(caught.value)
        with pytest.raises(AssertionError, match="pods changed"):
            until(lambda: uids(cluster) != before, "pods changed", seconds=3)
        assert jobs_api.ask("training-1", ray_heads.token)["status"] == "RUNNING"


def test_an_idle_cluster_takes_the_change_and_a_job_refuses_to_go_back(cluster: Stack, ray_heads: RayHeads) -> None:
    before = uids(cluster)
    changed = cluster.with_values(**OTHER)
    with jobs_api.running("training-2", ray_heads.token):
        # KubeRay leaves the pods alone, so the job may go on.
        manual = changed.with_values(ray={"upgrade": "manual", **OTHER["ray"]})
        assert manual.upgrade("raycluster", safe=False) == ["grpo: the pods of the cluster stay as they are\n"]
        with pytest.raises(HelmError) as caught:
            manual.with_values(ray={"workers": {"replicas": 1}}).upgrade("raycluster", safe=False)
        assert "It changes: 2 workers become 1. " in refusal(caught.value)
        with pytest.raises(HelmError) as caught:
            cluster.roll_back("raycluster", 1)
        assert "training-2 (RUNNING)" in refusal(caught.value)
        # Helm leaves a release pending whose hook refused the rollback. To the revision that was deployed it may go.
        assert cluster.roll_back("raycluster", 2) == ["grpo: the pods of the cluster stay as they are\n"]
    assert uids(cluster) == before
    assert changed.upgrade("raycluster", safe=False) == ["grpo: the pods of the cluster stay as they are\n"]
