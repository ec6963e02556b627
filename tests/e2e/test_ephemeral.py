"""Runs with a cluster of their own, made and ended by the operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness.helm import Helm
from harness.kube import Kube, Manifest
from harness.stack import Stack
from harness.waiting import until


@pytest.fixture
def run(helm: Helm, new_stack: NewStack) -> Iterator[Stack]:
    """A stack whose job brings its cluster; one retry. No Ray runs in the pods, so the job initializes all the time."""
    stack = new_stack("h200", helm.program.name, job={"cluster": {"mode": "ephemeral"}, "retries": 1})
    stack.install("storage", "grpo-job")
    until(lambda: len(stack.pods()) == 3, "the pods of the run's cluster", seen=stack.job_status)
    yield stack
    stack.uninstall("grpo-job", "storage")


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


@pytest.mark.ci
def test_upgrades_of_a_run_with_its_own_cluster_do_not_conflict(run: Stack, kube: Kube) -> None:
    """They are those that the operator's first write would make fail with Helm 4."""
    job = kube.get("rayjob", run.run, run.namespace)
    assert job["status"]["jobDeploymentStatus"] == "Initializing"
    taken = owners(job, "rayClusterSpec", "workerGroupSpecs")
    assert not any("kuberay" in manager or manager == "ray-operator" for manager in taken), taken
    before = [pod["metadata"]["uid"] for pod in run.pods()]
    run.upgrade("grpo-job")
    run.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("grpo-job")
    after = kube.get("rayjob", run.run, run.namespace)
    assert after["metadata"]["uid"] == job["metadata"]["uid"]
    assert after["metadata"]["labels"]["cost-centre"] == "17"
    assert [pod["metadata"]["uid"] for pod in run.pods()] == before


def test_tasks_of_one_run_are_independent_releases(new_stack: NewStack, kube: Kube, helm: Helm) -> None:
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
