"""Runs with a cluster of their own, made and ended by the operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from conftest import NewStack
from harness.helm import Helm, HelmError
from harness.image import Image
from harness.kube import Kube, Manifest
from harness.rayhead import RayHeads
from harness.stack import Stack
from harness.waiting import until


@pytest.fixture
def run(helm: Helm, new_stack: NewStack, ray_heads: RayHeads, image: Image) -> Iterator[Stack]:
    """A stack whose job brings its cluster; one retry."""
    job = {"cluster": {"mode": "ephemeral"}, "retries": 1}
    stack = new_stack("h200", helm.program.name, job=job)
    image.behave()
    ray_heads.namespaces.add(stack.namespace)
    try:
        stack.install("storage")
        yield stack
        stack.uninstall("grpo-job", "storage")
    finally:
        ray_heads.namespaces.discard(stack.namespace)


def owners(job: Manifest, *path: str) -> list[str]:
    """Name the managers that own anything under a path of the spec."""
    managers = []
    for entry in job["metadata"]["managedFields"]:
        fields = entry["fieldsV1"]
        for part in ("spec", *path):
            fields = fields.get(f"f:{part}", {})
        if fields:
            managers.append(entry["manager"])
    return managers


def test_a_run_with_its_own_cluster(run: Stack, image: Image, kube: Kube) -> None:
    """The upgrades in the middle are those that the operator's first write would make fail with Helm 4."""
    image.behave(hold=True)
    run.install("grpo-job")
    run.until_job("RUNNING", seconds=90)
    job = kube.get("rayjob", run.run, run.namespace)
    taken = owners(job, "rayClusterSpec", "workerGroupSpecs")
    assert not any("kuberay" in manager or manager == "ray-operator" for manager in taken), taken
    run.upgrade("grpo-job")
    run.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("grpo-job")
    after = kube.get("rayjob", run.run, run.namespace)
    assert after["metadata"]["uid"] == job["metadata"]["uid"]
    assert after["metadata"]["labels"]["cost-centre"] == "17"
    image.finish()
    run.until_job("SUCCEEDED")
    assert len(image.calls()) == 1
    until(lambda: not kube.list("rayclusters", run.namespace), "the job's cluster gone")


@pytest.mark.parametrize("helm", ["helm4"], indirect=True)
def test_a_retry_does_not_run_a_refused_spec(run: Stack, image: Image, kube: Kube) -> None:
    """Without the rollback option the refused spec stays in the RayJob, and the operator's retry takes it from there.

    Both Helms leave it there in the same way, and what follows knows nothing of Helm: one of them is enough for a test
    that starts two Ray heads.
    """
    image.behave(hold=True, exit=[9, 0])
    run.install("grpo-job")
    run.until_job("RUNNING", seconds=90)
    until(image.calls, "the first trainer")
    changed = run.with_values(job={"config": {"grpo": {"max_num_steps": 11}}})
    with pytest.raises(HelmError, match=r"locked-raise-job\.attempt"):
        changed.upgrade("grpo-job", safe=False)
    spec = kube.get("rayjob", run.run, run.namespace)["spec"]
    assert '"max_num_steps": 11' in spec["entrypoint"], "the refused spec did not leak: this test proves nothing"
    image.finish()
    status = run.until_job("FAILED", seconds=120)
    assert "raise job.attempt" in status["message"]
    assert [yaml.safe_load(call.config)["grpo"]["max_num_steps"] for call in image.calls()] == [10]


@pytest.mark.parametrize("helm", ["helm4"], indirect=True)
def test_a_retry_after_an_upgrade_runs_the_newer_programs_and_says_so(run: Stack, image: Image) -> None:
    """The operator takes the entrypoint from the RayJob at each start. The run means the same, so it goes on."""
    image.behave(hold=True, exit=[9, 0])
    run.install("grpo-job")
    run.until_job("RUNNING", seconds=90)
    until(image.calls, "the first trainer")
    run.with_newer_programs("0.1.1").upgrade("grpo-job")
    assert len(image.calls()) == 1
    image.finish()
    run.until_job("SUCCEEDED", seconds=120)
    assert len(image.calls()) == 2
    starts = [(start["attempt"], start["programs"].split(",")[0]) for start in run.starts()]
    assert starts == [(1, "grpo-job 0.1.0"), (1, "grpo-job 0.1.1")]


def test_tasks_of_one_run_are_releases_side_by_side(new_stack: NewStack, kube: Kube, helm: Helm) -> None:
    """Each brings its own cluster and what protects it; uninstalling one leaves the others alone."""
    run = new_stack("b200", helm.program.name, job={"cluster": {"mode": "ephemeral"}})
    tasks = [run, *(run.with_values(job={"task": task}) for task in ("fetch", "convert"))]
    for each in tasks:
        each.install("grpo-job")

    def names(kind: str) -> set[str]:
        return {item["metadata"]["name"] for item in kube.list(kind, run.namespace)}

    expected = {run.job, f"{run.job}-fetch", f"{run.job}-convert"}
    assert names("networkpolicies") == names("poddisruptionbudgets") == expected
    tasks[1].uninstall("grpo-job")
    assert names("networkpolicies") == names("poddisruptionbudgets") == expected - {f"{run.job}-fetch"}
    for each in (tasks[2], run):
        each.uninstall("grpo-job")
