"""Runs that bring their own cluster, in real pods: a success, and a failure that the operator retries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import STATE, NewStack
from harness.kube import Kube
from harness.stack import Stack
from harness.trainer import Trainer
from harness.waiting import until


@pytest.fixture
def run(new_stack: NewStack) -> Iterator[Stack]:
    """A stack whose job brings its cluster; one retry."""
    stack = new_stack("b200", "helm4", job={"cluster": {"mode": "ephemeral"}, "retries": 1})
    stack.install("network", "storage")
    yield stack
    stack.uninstall("grpo-job", "storage", "network")


def test_a_failed_run_gets_a_new_cluster_and_succeeds(run: Stack, kube: Kube) -> None:
    trainer = Trainer(run.on_volume(STATE))
    trainer.behave(exit=[9, 0])
    run.install("grpo-job")
    run.until_job("SUCCEEDED", 600)
    assert len(trainer.calls()) == 2
    until(lambda: not kube.list("rayclusters", run.namespace), "the job's cluster gone")
