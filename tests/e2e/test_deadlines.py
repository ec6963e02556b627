"""Time to save before pods end, limits of an attempt, and a RayJob whose cluster does not exist."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import NewStack
from harness import containers, jobs_api
from harness.image import Image
from harness.kube import Kube
from harness.rayhead import EXTRA, RayHeads
from harness.stack import Stack
from harness.waiting import until

# How long the trainer saves; less than the pods may take.
SAVE = 6.0
STOP = {"head": {"jobStopSeconds": 20}}


@pytest.fixture
def cluster(new_stack: NewStack, ray_heads: RayHeads, image: Image) -> Iterator[Stack]:
    """A cluster with a real head. What KubeRay and the pods do is the same under both Helms."""
    image.behave(hold=True, save_seconds=SAVE)
    with ray_heads.running(new_stack("b200", ray=STOP)) as stack:
        yield stack


def start(run: Stack, image: Image) -> None:
    """Install the run and wait for its trainer."""
    run.install("grpo-job")
    run.until_job("RUNNING", seconds=90)
    until(image.calls, "the trainer")


def output(run: Stack) -> str:
    """Return what the first attempt has written on the volume."""
    file = run.on_volume(f"/data/runs/{run.job}/attempts/1/output.log")
    return file.read_text() if file.exists() else ""


def until_failed(run: Stack, seconds: float) -> dict[str, Any]:
    """Wait until KubeRay counts the RayJob as failed, whatever the job itself does."""
    until(lambda: run.job_status().get("jobDeploymentStatus") == "Failed", "Failed", seconds, seen=run.job_status)
    return run.job_status()


def test_the_trainer_saves_before_the_head_ends_and_the_next_head_continues(
    cluster: Stack, image: Image, kube: Kube
) -> None:
    start(cluster, image)
    asked = time.time()
    kube.run("delete", "pod", cluster.pods()[0]["metadata"]["name"], "-n", cluster.namespace, "--wait=false")
    until(lambda: len(image.calls()) == 2, "the next trainer", seconds=120, seen=cluster.job_status)
    assert "trainer: SIGTERM, saving" in output(cluster)
    (_, last, _), (second, _, _) = image.writers()
    assert asked + SAVE < last < second
    image.finish()
    cluster.until_job("SUCCEEDED")
    cluster.uninstall("grpo-job")


def test_a_run_whose_cluster_was_uninstalled_continues_when_it_comes_back(cluster: Stack, image: Image) -> None:
    """Meanwhile its RayJob counts as running; only an event and the missing cluster say otherwise."""
    start(cluster, image)
    asked = time.time()
    cluster.uninstall("raycluster")
    until(lambda: "ended with exit code" in output(cluster), "the end of the trainer", seen=lambda: output(cluster))
    ((_, last, _),) = image.writers()
    assert last > asked + SAVE
    assert cluster.job_status()["jobStatus"] == "RUNNING"
    until(lambda: "RayClusterNotFound" in cluster.kube.events(cluster.namespace), "the event", seconds=60)
    cluster.install("raycluster")
    until(lambda: len(image.calls()) == 2, "the next trainer", seconds=180, seen=cluster.job_status)
    image.finish()
    cluster.until_job("SUCCEEDED")
    cluster.uninstall("grpo-job")


def test_the_deadline_stops_the_trainer_and_workers_wait_for_it(
    cluster: Stack, image: Image, kube: Kube, work: Path, ray_heads: RayHeads
) -> None:
    """KubeRay leaves the job of a failed RayJob running on an existing cluster; the launcher ends it."""
    run = cluster.with_values(job={"deadlineSeconds": 20})
    start(run, image)
    worker = cluster.pods()[1]
    # The program needs none of them, and this machine has no driver folders.
    worker["spec"]["volumes"] = []
    before = containers.pre_stop(worker["spec"]["containers"][0])
    leaving = containers.prepare(kube, worker, before, work, EXTRA)
    with subprocess.Popen(leaving.command, env=leaving.environment) as process:
        status = until_failed(run, 60)
        assert status["reason"] == "DeadlineExceeded"
        until(lambda: "trainer: SIGTERM, saving" in output(run), "SIGTERM", seen=lambda: output(run))
        assert process.poll() is None
        assert process.wait(30) == 0
    until(lambda: jobs_api.ask(status["jobId"], ray_heads.token)["status"] == "FAILED", "the end of the job")
    run.uninstall("grpo-job")


def test_a_cluster_that_never_comes_fails_the_run(new_stack: NewStack, kube: Kube) -> None:
    run = new_stack("b200", job={"cluster": {"timeoutSeconds": 5}})
    run.install("grpo-job")
    status = until_failed(run, 60)
    assert status["reason"] == "PreRunningDeadlineExceeded"
    assert "RayClusterNotFound" in kube.events(run.namespace)
    run.uninstall("grpo-job")


def test_a_running_job_without_its_cluster_ends_with_its_deadline(cluster: Stack, image: Image) -> None:
    run = cluster.with_values(job={"deadlineSeconds": 30})
    start(run, image)
    cluster.uninstall("raycluster")
    assert run.job_status()["jobDeploymentStatus"] == "Running"
    assert until_failed(run, 120)["reason"] == "DeadlineExceeded"
    run.uninstall("grpo-job")
    cluster.install("raycluster")


def test_an_ephemeral_run_that_is_uninstalled_saves(new_stack: NewStack, ray_heads: RayHeads, image: Image) -> None:
    """KubeRay asks Ray to stop the job and deletes the cluster at the same time."""
    image.behave(hold=True, save_seconds=SAVE)
    run = new_stack("h200", ray=STOP, job={"cluster": {"mode": "ephemeral"}})
    ray_heads.namespaces.add(run.namespace)
    try:
        run.install("storage")
        start(run, image)
        asked = time.time()
        run.uninstall("grpo-job")
        until(lambda: "ended with exit code" in output(run), "the end of the trainer", seen=lambda: output(run))
        ((_, last, _),) = image.writers()
        assert last > asked + SAVE
        run.uninstall("storage")
    finally:
        ray_heads.namespaces.discard(run.namespace)
