"""Runs that bring their own cluster, in real pods: a failure that the operator retries, and an uninstall that saves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
import yaml

from conftest import STATE, NewStack
from harness.kube import Kube
from harness.stack import Stack
from harness.trainer import Trainer
from harness.waiting import until

SAVE = 6.0
# The least that the schema allows; nothing here takes as long.
SHORT = {f"{phase}Seconds": 60 for phase in ("loading", "firstStep", "step", "checkpoint", "validation")}


@pytest.fixture
def run(new_stack: NewStack) -> Iterator[Stack]:
    """A stack whose job brings its cluster; one retry."""
    job = {"cluster": {"mode": "ephemeral"}, "retries": 1}
    stack = new_stack("b200", "helm4", job=job, ray={"head": {"jobStopSeconds": 20}})
    stack.install("network", "storage")
    yield stack
    stack.uninstall_all()


def test_a_failed_run_restarts_on_a_new_cluster_with_the_newer_programs(run: Stack, kube: Kube) -> None:
    """The operator takes the entrypoint from the RayJob at each start. The run means the same, so it goes on."""
    trainer = Trainer(run.on_volume(STATE))
    trainer.behave(hold=True, exit=[9, 0])
    run.install("grpo-job")
    until(trainer.calls, "the first trainer", 360, seen=run.job_status)
    run.with_newer_programs("0.1.1").upgrade("grpo-job")
    trainer.finish()
    run.until_job("SUCCEEDED", 600)
    assert len(trainer.calls()) == 2
    starts = [(start["attempt"], start["programs"].split(",")[0]) for start in run.starts()]
    assert starts == [(1, "grpo-job 0.1.0"), (1, "grpo-job 0.1.1")]
    until(lambda: not kube.list("rayclusters", run.namespace), "the job's cluster gone")


def test_a_run_stopped_by_the_guard_leaves_its_evidence_and_no_cluster(run: Stack, kube: Kube) -> None:
    """The operator is not asked for another cluster: nothing holds GPUs any more."""
    guard = {"deadlines": SHORT, "evidenceSeconds": 60, "restarts": 0}
    stalls = run.with_values(job={"retries": 0, "guard": guard})
    trainer = Trainer(stalls.on_volume(STATE))
    trainer.behave(steps=4, stall_at=3)
    stalls.install("grpo-job")
    until(trainer.starts, "the trainer", 360, seen=stalls.job_status)
    status = stalls.until_job("FAILED", 300)
    assert "gave up after 0 of 0 restarts (job.guard.restarts) without a new checkpoint" in status["message"]
    until(lambda: not kube.list("rayclusters", stalls.namespace), "the job's cluster gone", 60)
    until(lambda: not stalls.pods(), "no pod of the job", 60)
    folder = stalls.on_volume(f"/data/runs/{stalls.job}")
    said = json.loads((folder / "status.json").read_text())
    assert (said["state"], said["step"]) == ("ended", 2)
    (evidence,) = (folder / "attempts/1/evidence").iterdir()
    assert "phase step after step 2" in (evidence / "reason.txt").read_text()
    assert (evidence / "complete.txt").exists()
    assert trainer.starts() == [0]


def test_an_uninstalled_run_saves_a_checkpoint(run: Stack) -> None:
    """KubeRay asks Ray to stop the job and deletes the cluster at the same time."""
    trainer = Trainer(run.on_volume(STATE))
    trainer.behave(hold=True, save_seconds=SAVE)
    run.install("grpo-job")
    until(trainer.calls, "the trainer", 360, seen=run.job_status)
    asked = time.time()
    run.uninstall("grpo-job")
    log = run.on_volume(f"/data/runs/{run.job}/attempts/1/output.log")
    until(lambda: "ended with exit code" in log.read_text(), "the end of the trainer", 60, seen=log.read_text)
    ((_, last, _),) = trainer.writers()
    assert last > asked + SAVE


@pytest.mark.parametrize(("version", "ray"), [("v0.6.0", "2.54.0"), ("v0.8.0", "2.58.0")])
def test_a_run_can_use_another_framework_version(run: Stack, kube: Kube, version: str, ray: str) -> None:
    """Its values file changes the image, and so the Ray of head, workers and Jobs API."""
    other = run.with_values(
        **yaml.safe_load((run.repository / f"values/frameworks/nemo-rl-{version}.yaml").read_text())
    )
    trainer = Trainer(other.on_volume(STATE))
    trainer.behave(hold=True)
    other.install("grpo-job")
    until(trainer.calls, "the trainer", 360, seen=other.job_status)
    said = [kube.execute(pod, "python3", "-c", "import ray; print(ray.__version__)").strip() for pod in other.pods()]
    assert said == [ray] * 3
    trainer.finish()
    other.until_job("SUCCEEDED", 120)
