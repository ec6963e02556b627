"""Stacks in the queue of examples/kueue, which holds one of them, in real pods: what waits, and what starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import READY_SECONDS, REPOSITORY, STATE, NewStack
from harness.helm import Helm
from harness.kube import Kube, load
from harness.kueue import Kueue
from harness.realnode.cluster import RealCluster
from harness.stack import Stack
from harness.trainer import Trainer
from harness.waiting import report, until

EXAMPLE = load((REPOSITORY / "examples/kueue/queue.yaml").read_text())
QUEUE = {"kueue": {"queue": "gpus", "topology": {"preferred": "cloud.google.com/gce-topology-block"}}}
FULL = "insufficient unused quota for nvidia.com/gpu in flavor b200, 16 more needed"

NewQueued = Callable[..., Stack]


@pytest.fixture(scope="module")
def kueue(cluster: RealCluster, kube: Kube, work: Path) -> Iterator[Kueue]:
    """Kueue with the queue of the examples."""
    kueue = Kueue(cluster, work)
    try:
        kueue.start()
        kube.apply(item for item in EXAMPLE if item["kind"] != "LocalQueue")
        yield kueue
    finally:
        kueue.stop()


@pytest.fixture
def new_queued(kueue: Kueue, kube: Kube, helms: dict[str, Helm], new_stack: NewStack) -> Iterator[NewQueued]:
    """Make stacks of a namespace with a LocalQueue, and uninstall what is left of them: new_queued(**values)."""
    stacks: list[Stack] = []

    def make(**values: object) -> Stack:
        stack = new_stack("b200", "helm4", ray=QUEUE, **values).with_helm(replace(helms["helm4"], server_side=False))
        (queue,) = [item for item in EXAMPLE if item["kind"] == "LocalQueue"]
        kube.apply([{**queue, "metadata": {**queue["metadata"], "namespace": stack.namespace}}])
        stacks.append(stack)
        return stack

    yield make
    for stack in stacks:
        stack.uninstall_all()


def until_it_waits(kueue: Kueue, kind: str, name: str, stack: Stack) -> None:
    """Wait until the workload of an object says that the GPUs are taken; it has no pods."""
    until(lambda: FULL in kueue.waits_for(kind, name, stack.namespace), f"{kind} {name} waits", 30)
    assert not kueue.admitted(kind, name, stack.namespace)
    assert stack.pods() == []


def test_a_cluster_and_a_run_wait_for_quota_and_then_start(new_queued: NewQueued, kueue: Kueue, kube: Kube) -> None:
    first, second = new_queued(), new_queued()
    first.install("storage", "raycluster")
    kueue.until_admitted("RayCluster", first.cluster, first.namespace)
    second.install("storage", "raycluster")
    until_it_waits(kueue, "RayCluster", second.cluster, second)
    first.uninstall("raycluster")
    since = time.time()
    kueue.until_admitted("RayCluster", second.cluster, second.namespace, 60)
    report("the cluster is admitted", since)
    second.until_ready(READY_SECONDS)
    report("the cluster is ready", since)
    assert [pod["status"]["phase"] for pod in second.pods()] == ["Running"] * 3

    run = new_queued(job={"cluster": {"mode": "ephemeral"}})
    trainer = Trainer(run.on_volume(STATE))
    trainer.behave(seconds=1)
    run.install("storage", "grpo-job")
    until_it_waits(kueue, "RayJob", run.run, run)
    until(lambda: run.job_status().get("jobDeploymentStatus") == "Suspended", "the RayJob is suspended", 60)
    second.uninstall("raycluster")
    run.until_job("SUCCEEDED", READY_SECONDS)
    assert len(trainer.calls()) == 1
    until(lambda: kube.get("clusterqueue", "gpus")["status"]["reservingWorkloads"] == 0, "the quota of the run is free")
