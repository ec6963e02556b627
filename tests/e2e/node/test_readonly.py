"""A volume that turns read-only under a run: its file system has an error, and the kernel protects what is left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import READY_SECONDS, Installed, NewStack, installed
from harness.commands import explain
from harness.kube import Kube
from harness.realnode.cluster import RealCluster
from harness.realnode.disk import Disk
from harness.stack import Stack
from harness.waiting import report, until


@pytest.fixture
def stack(new_stack: NewStack) -> Stack:
    """A stack that is not installed."""
    return new_stack("b200", "helm4")


@pytest.fixture
def disk(stack: Stack, cluster: RealCluster, work: Path) -> Iterator[Disk]:
    """The disk of the stack's volume."""
    disk = Disk(work / "disk.img", stack.on_volume("/data"), [node.machine for node in cluster.nodes.values()])
    try:
        disk.mount()
        yield disk
    finally:
        disk.remove()


@pytest.fixture
def ready(disk: Disk, stack: Stack) -> Iterator[Installed]:
    """The stack, on the disk; `disk` is taken away after it."""
    with installed(stack) as found:
        yield found


def test_a_run_fails_on_a_read_only_volume_and_a_later_attempt_resumes(
    ready: Installed, disk: Disk, kube: Kube, tmp_path: Path
) -> None:
    """Neither the trainer nor its retry can write; a later attempt goes on once the disk is repaired."""
    ready.trainer.behave(steps=2, hold=True, save_seconds=1)
    run = ready.with_run("read-only", retries=1)
    run.install("grpo-job")
    until(ready.trainer.writers, "a trainer that has saved two steps", 120)
    assert ready.trainer.starts() == [0]
    disk.flush()
    disk.fail()
    since = time.time()
    assert "Read-only file system" in run.until_job("FAILED", 300)["message"]
    report("the run has failed", since)
    causes, shown = explain(run, tmp_path)
    assert (causes[0], "Read-only file system" in shown["reason"]) == ("not-writable", True), causes
    run.uninstall("raycluster")
    until(lambda: not kube.list("pods", run.namespace), "no pod", 60)
    disk.repair()
    run.install("raycluster")
    run.until_ready(READY_SECONDS)
    ready.trainer.set(steps=3)
    second = run.with_values(job={"attempt": 2})
    second.upgrade("grpo-job")
    second.until_job("SUCCEEDED", 240)
    assert ready.trainer.starts() == [0, 2]
    second.uninstall("grpo-job")
