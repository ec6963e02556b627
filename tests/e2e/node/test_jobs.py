"""Runs and tasks on one cluster in real pods. From `held` on, the tests share a run and keep their order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import READY_SECONDS, Installed, NewStack, installed
from harness.argocd import health
from harness.helm import HelmError
from harness.kube import Kube, KubectlError, Manifest, dump
from harness.stack import Stack
from harness.waiting import until
from test_checks import helm_test

# How long a trainer saves; less than the pods may take.
SAVE = 6.0
VALUES: dict[str, Any] = {
    "accelerator": {"worker": {"ephemeralStorage": "4Gi"}},
    "storage": {"scratch": {"mountPath": "/scratch", "ephemeral": {"size": "1Gi"}}},
    "ray": {"head": {"jobStopSeconds": 20}},
}
OTHER = {"ray": {"env": {"A_VARIABLE": {"value": "not-to-be-shown"}}}}
FEWER = {"ray": {"workers": {"replicas": 1}}}


@pytest.fixture(scope="module")
def ready(new_stack: NewStack) -> Iterator[Installed]:
    """A stack whose cluster is ready, and whose pods have room for a model on their own disks."""
    with installed(new_stack("b200", "helm4").with_values(**VALUES)) as found:
        yield found


def output(run: Stack) -> str:
    """Return what the first attempt of a run has written on the volume."""
    file = run.on_volume(f"/data/runs/{run.job}/attempts/1/output.log")
    return file.read_text() if file.exists() else ""


def test_a_job_that_disagrees_with_its_cluster_fails_within_seconds(ready: Installed) -> None:
    ready.trainer.behave()
    other = ready.with_run("disagrees").with_values(images={"training": {"tag": "v0.7.0-ours"}})
    other.install("grpo-job")
    status = other.until_job("FAILED", 120)
    assert "image: the cluster has nvcr.io/nvidia/nemo-rl:v0.7.0" in status["message"]
    assert ready.trainer.calls() == []
    other.uninstall("grpo-job")


def test_a_model_is_copied_to_each_node_before_the_trainer_starts(ready: Installed, kube: Kube) -> None:
    """The head's copy has no weights. At the second start nothing is copied."""
    model = ready.stack.on_volume("/data/models/toy")
    model.mkdir(parents=True)
    for number in range(3):
        (model / f"model-{number}.safetensors").write_bytes(b"x" * (1 << 20))
    (model / "config.json").write_text("{}")
    ready.trainer.behave(exit=[7, 0])
    job = {"stage": True, "retries": 1, "config": {"policy": {"model_name": "/data/models/toy"}}}
    run = ready.with_run("staged", **job)
    run.install("grpo-job")
    run.until_job("SUCCEEDED", 180)
    first, second = ready.trainer.calls()
    assert first.argv[-1] == second.argv[-1]
    copy = str(json.loads(first.argv[-1].removeprefix("policy.model_name=")))
    assert Path(copy).match("/scratch/grpo-models/*/toy")
    head, *workers = (kube.execute(pod, "ls", copy).split() for pod in run.pods())
    assert head == ["config.json"]
    assert workers == [["config.json", *(f"model-{number}.safetensors" for number in range(3))]] * 2
    said = output(run).split("starting the trainer again")
    assert [part.count("has a copy of") for part in said] == [3, 0]
    assert [part.count("has its copy already") for part in said] == [0, 3]
    folder = run.on_volume(f"/data/runs/{run.job}")
    assert yaml.safe_load((folder / "attempts/1/config.yaml").read_text())["policy"]["model_name"] == "/data/models/toy"
    assert json.loads((folder / "run.json").read_text())["model"] == "/data/models/toy"
    run.uninstall("grpo-job")


def test_data_is_prepared_before_a_run_and_checkpoints_deleted_after_it(ready: Installed) -> None:
    """The real programs: data is prepared before the run, and its checkpoints are deleted after it."""
    run = ready.with_run("tasks")
    raw = run.on_volume("/data/raw/train.jsonl")
    raw.parent.mkdir()
    raw.write_text(json.dumps({"question": "Half of 144?", "answer": "144 / 2 = 72\n#### 72"}) + "\n")
    prepare = run.with_values(job={"task": "prepare-data", "prepareData": {"gsm8k": {"repository": "/data/raw"}}})
    prepare.install("grpo-job")
    prepare.until_job("SUCCEEDED", 120)
    assert json.loads(run.on_volume("/data/datasets/gsm8k/train.jsonl").read_text())["answer"] == "72"
    ready.trainer.behave(steps=2)
    run.install("grpo-job")
    run.until_job("SUCCEEDED", 120)
    steps = run.on_volume(f"/data/runs/{run.job}/checkpoints")
    assert sorted(path.name for path in steps.iterdir()) == ["step_1", "step_2"]
    clean = run.with_values(job={"task": "clean"})
    clean.install("grpo-job")
    clean.until_job("SUCCEEDED", 120)
    assert not steps.exists() or not list(steps.iterdir())
    for each in (clean, run, prepare):
        each.uninstall("grpo-job")


@pytest.fixture(scope="module")
def held(ready: Installed) -> Iterator[Stack]:
    """A run whose trainer goes on until the last test lets it end."""
    ready.trainer.behave(hold=True, save_seconds=SAVE)
    run = ready.with_run("held")
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 120)
    yield run
    run.uninstall("grpo-job")


def test_a_check_refuses_to_run_during_training(held: Stack, kube: Kube) -> None:
    passed, said = helm_test(held, kube, "nccl")
    assert not passed
    assert said.startswith(f"grpo: nccl failed: another job is running: {held.job_status()['jobId']} (RUNNING). ")


def rayjob(run: Stack, kube: Kube) -> Manifest:
    """Return the RayJob of a run."""
    return kube.get("rayjob", run.run, run.namespace)


def kubectl_apply(run: Stack, kube: Kube) -> None:
    """Apply the objects of a run as kubectl and Argo CD do."""
    kube.run("apply", "--namespace", run.namespace, "-f", "-", stdin=dump(run.render("grpo-job")))


def test_kubectl_apply_and_the_run_both_continue_after_the_refusal(held: Stack, kube: Kube) -> None:
    """KubeRay does not look at what it finds in the RayJob of a job that runs."""
    with pytest.raises(KubectlError, match=r"locked-raise-job\.attempt"):
        kubectl_apply(held.with_values(job={"config": {"grpo": {"max_num_steps": 11}}}), kube)
    live = rayjob(held, kube)
    assert '"max_num_steps": 11' in live["spec"]["entrypoint"]
    assert live["status"]["jobStatus"] == "RUNNING"
    assert health(live) == "Healthy"
    kubectl_apply(held, kube)


def refusal(stack: Stack, kube: Kube, act: Callable[[], None]) -> str:
    """Expect the hook to refuse what Helm does, and return what its pod said."""
    with pytest.raises(HelmError, match=f"{stack.cluster}-idle-check"):
        act()
    return kube.logs(kube.get("pod", f"{stack.cluster}-idle-check", stack.namespace))


def test_upgrades_and_rollbacks_that_would_end_a_run_are_refused(held: Stack, kube: Kube) -> None:
    before = {pod["metadata"]["uid"] for pod in held.pods()}
    running = f"{held.job_status()['jobId']} (RUNNING)"
    said = refusal(held, kube, lambda: held.with_values(**OTHER).upgrade("raycluster", safe=False))
    assert said.startswith(f"grpo: {running} runs on RayCluster {held.cluster}, and this upgrade would end it")
    assert "It changes: environment of the head, environment of the workers. " in said
    assert "not-to-be-shown" not in said
    # KubeRay leaves the pods alone there, so the job may go on.
    manual = held.with_values(**OTHER).with_values(ray={"upgrade": "manual"})
    manual.upgrade("raycluster", safe=False)
    said = refusal(held, kube, lambda: manual.with_values(**FEWER).upgrade("raycluster", safe=False))
    assert "It changes: 2 workers become 1. " in said
    assert running in refusal(held, kube, lambda: held.roll_back("raycluster", 1))
    # Helm leaves a release pending whose hook refused the rollback. To the revision that was deployed it may go.
    deployed = next(each for each in history(held) if each["status"] == "deployed")
    held.roll_back("raycluster", deployed["revision"])
    assert {pod["metadata"]["uid"] for pod in held.pods()} == before
    assert held.job_status()["jobStatus"] == "RUNNING"


def history(stack: Stack) -> list[dict[str, Any]]:
    """Return the revisions of the cluster's release."""
    words = ("history", stack.release("raycluster"), "--namespace", stack.namespace, "-o", "json")
    return list(json.loads(stack.helm.run(*words)))


def test_runs_outlive_their_cluster_until_their_deadline(held: Stack, ready: Installed, kube: Kube) -> None:
    """Two at once. Both save before the pods end, and count as running; only an event says that the cluster is gone.

    KubeRay looks for the cluster after growing pauses: a later deadline would make this test much longer.
    """
    late = ready.with_run("late", deadlineSeconds=40)
    late.install("grpo-job")
    until(lambda: len(ready.trainer.calls()) == 2, "the second trainer", 35)
    asked = time.time()
    ready.stack.uninstall("raycluster")
    until(lambda: not kube.list("pods", held.namespace, "ray.io/node-type=worker"), "no workers", 60)
    gone = time.time()
    for run, (_, last, _) in zip((held, late), ready.trainer.writers(), strict=True):
        assert asked + SAVE < last < gone, "the trainer could not save, or the workers did not wait for it"
        assert "trainer: SIGTERM, saving" in output(run)
        assert run.job_status()["jobStatus"] == "RUNNING"
    until(lambda: "RayClusterNotFound" in kube.events(held.namespace), "the event", 60)
    until(lambda: late.job_status()["jobDeploymentStatus"] == "Failed", "Failed", 120, seen=late.job_status)
    assert late.job_status()["reason"] == "DeadlineExceeded"
    late.uninstall("grpo-job")
    ready.stack.install("raycluster")
    ready.stack.until_ready(READY_SECONDS)
    until(lambda: len(ready.trainer.calls()) == 3, "the next trainer", 180, seen=held.job_status)
    ready.trainer.finish()
    assert held.until_job("SUCCEEDED", 120)["jobDeploymentStatus"] == "Complete"
    assert health(rayjob(held, kube)) == "Healthy"
    folders = [yaml.safe_load(call.config)["checkpointing"]["checkpoint_dir"] for call in ready.trainer.calls()]
    assert folders == [f"/data/runs/{run.job}/checkpoints" for run in (held, late, held)]
