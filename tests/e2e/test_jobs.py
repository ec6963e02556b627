"""Runs on an existing cluster: failure, refused changes, new attempts, two runs at once, layers that disagree."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from conftest import NewStack
from harness import jobs_api
from harness.helm import Helm, HelmError
from harness.image import Image
from harness.kube import Kube
from harness.rayhead import RayHeads
from harness.stack import Stack
from harness.waiting import until

# What the program in the cluster does is the same under both Helms.
ONE_HELM = pytest.mark.parametrize("helm", ["helm4"], indirect=True)


@pytest.fixture(scope="module")
def cluster(new_stack: NewStack, ray_heads: RayHeads) -> Iterator[Stack]:
    """A B200 cluster with a real Ray head that all runs of this module share; a driver has little time to save."""
    disk = {"scratch": {"mountPath": "/scratch", "ephemeral": {"size": "1Gi"}}}
    with ray_heads.running(new_stack("b200", ray={"head": {"jobStopSeconds": 3}}, storage=disk)) as stack:
        yield stack


@pytest.fixture
def run(cluster: Stack, helm: Helm, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A run of its own name; its release is uninstalled afterwards."""
    words = request.node.originalname.removeprefix("test_").replace("_", "-")[:26].strip("-")
    stack = cluster.with_helm(helm).with_values(job={"name": f"{words}-{helm.program.name}"})
    yield stack
    stack.uninstall("grpo-job")


def steps(stack: Stack, number: int) -> Stack:
    """Change the specification of a run."""
    return stack.with_values(job={"config": {"grpo": {"max_num_steps": number}}})


def plan_text(stack: Stack) -> str:
    """Return the plan in the entrypoint of a run."""
    return stack.entrypoint().split("GRPO_PLAN'\n", 1)[1].split("\nGRPO_PLAN\n", 1)[0]


@ONE_HELM
def test_a_failing_trainer_fails_the_job(run: Stack, image: Image) -> None:
    image.behave(exit=3)
    run.install("grpo-job")
    status = run.until_job("FAILED")
    assert status["jobDeploymentStatus"] == "Failed"
    assert "exit code 3" in status["message"]
    assert len(image.calls()) == 1


@ONE_HELM
def test_verl_gets_its_configuration_and_its_code(run: Stack, image: Image) -> None:
    """On the other recipe's cluster, whose image is asked for: what differs is the driver alone."""
    nemo = yaml.safe_load((run.repository / f"values/recipes/{run.recipe}.yaml").read_text())
    verl = run.with_recipe("qwen2.5-32b-gsm8k-verl").with_values(images=nemo["images"])
    plan = json.loads(plan_text(verl))
    image.behave()
    image.prepare(verl, plan)
    verl.install("grpo-job")
    verl.until_job("SUCCEEDED")
    (call,) = image.calls()
    config = yaml.safe_load(call.config)
    assert config["actor_rollout_ref"]["rollout"]["n"] == 8
    assert config == plan["config"]


@ONE_HELM
def test_retries_start_the_trainer_again(run: Stack, image: Image) -> None:
    image.behave(exit=[7, 0])
    run.with_values(job={"retries": 1}).install("grpo-job")
    run.until_job("SUCCEEDED")
    assert len(image.calls()) == 2


@ONE_HELM
def test_a_killed_trainer_resumes_from_its_last_checkpoint(run: Stack, image: Image) -> None:
    image.behave(steps=4, die_at=2)
    run.install("grpo-job")
    assert "exit code 137" in run.until_job("FAILED")["message"]
    second = run.with_values(job={"attempt": 2})
    second.upgrade("grpo-job")
    second.until_job("SUCCEEDED")
    assert image.starts() == [0, 2]


def with_local_model(stack: Stack, **more: object) -> Stack:
    """Let a run train a small model of the volume from a copy of it on each node."""
    folder = stack.on_volume("/data/models/toy")
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(3):
        (folder / f"model-{number}.safetensors").write_bytes(b"x" * (1 << 20))
    (folder / "config.json").write_text("{}")
    job = {"stage": True, "config": {"policy": {"model_name": "/data/models/toy"}}}
    return stack.with_values(job={**job, **more})


@ONE_HELM
def test_a_model_is_copied_before_the_trainer_starts(run: Stack, image: Image) -> None:
    """Three Ray nodes have one disk here: the head's, which gets no weights, and two with GPUs that copy once."""
    image.behave(exit=[7, 0])
    staged = with_local_model(run, retries=1)
    staged.install("grpo-job")
    staged.until_job("SUCCEEDED")
    first, second = image.calls()
    assert first.argv[-1] == second.argv[-1]
    copy = Path(json.loads(first.argv[-1].removeprefix("policy.model_name=")))
    assert copy.match("/scratch/grpo-models/*/toy")
    assert sorted(path.name for path in copy.iterdir()) == [
        *("config.json",),
        *(f"model-{i}.safetensors" for i in range(3)),
    ]
    attempt = run.on_volume(f"/data/runs/{run.job}/attempts/1")
    said = (attempt / "output.log").read_text()
    assert said.count("has its copy already") + said.count("has a copy of") == 6
    # At the second start nothing is copied.
    assert said.split("starting the trainer again")[1].count("has its copy already") == 3
    assert yaml.safe_load((attempt / "config.yaml").read_text())["policy"]["model_name"] == "/data/models/toy"
    assert json.loads((attempt.parents[1] / "run.json").read_text())["model"] == "/data/models/toy"


@ONE_HELM
def test_a_model_that_does_not_fit_ends_the_job(run: Stack, image: Image) -> None:
    image.behave()
    small = with_local_model(run).with_values(storage={"scratch": {"ephemeral": {"size": "2Mi"}}})
    (run.on_volume("/data/models/toy") / "other.safetensors").write_bytes(b"x" * (1 << 20))
    small.install("grpo-job")
    small.until_job("FAILED")
    said = (run.on_volume(f"/data/runs/{run.job}/attempts/1") / "output.log").read_text()
    assert (
        "OSError: the copy needs 0.0 GiB, and 0.0 GiB are free in /scratch, whose limit is 0.0 GiB; raise storage.s"
        in said
    )
    assert "job.stage could not copy /data/models/toy to every node" in said
    assert not image.calls()


@ONE_HELM
def test_tasks_beside_a_run(run: Stack, image: Image) -> None:
    """The real programs: data is prepared before the run, and its checkpoints are deleted after it."""
    raw = run.on_volume("/data/raw/train.jsonl")
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.write_text(json.dumps({"question": "Half of 144?", "answer": "144 / 2 = 72\n#### 72"}) + "\n")
    prepare = run.with_values(job={"task": "prepare-data", "prepareData": {"gsm8k": {"repository": "/data/raw"}}})
    prepare.install("grpo-job")
    prepare.until_job("SUCCEEDED")
    prepared = json.loads(run.on_volume("/data/datasets/gsm8k/train.jsonl").read_text())
    assert prepared["answer"] == "72"
    image.behave(steps=2)
    run.install("grpo-job")
    run.until_job("SUCCEEDED")
    steps = run.on_volume(f"/data/runs/{run.job}/checkpoints")
    assert sorted(path.name for path in steps.iterdir()) == ["step_1", "step_2"]
    clean = run.with_values(job={"task": "clean"})
    clean.install("grpo-job")
    clean.until_job("SUCCEEDED")
    assert not steps.exists() or not list(steps.iterdir())
    clean.uninstall("grpo-job")
    prepare.uninstall("grpo-job")


def test_a_changed_spec_is_refused_and_the_run_goes_on(run: Stack, image: Image, kube: Kube) -> None:
    image.behave(hold=True)
    run.install("grpo-job")
    run.until_job("RUNNING")
    before = kube.get("rayjob", run.run, run.namespace)
    with pytest.raises(HelmError, match=r"locked-raise-job\.attempt"):
        steps(run, 11).upgrade("grpo-job")
    after = kube.get("rayjob", run.run, run.namespace)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    image.finish()
    run.until_job("SUCCEEDED")
    (call,) = image.calls()
    assert yaml.safe_load(call.config)["grpo"]["max_num_steps"] == 10


def test_unchanged_and_label_only_upgrades_pass(run: Stack, image: Image, kube: Kube) -> None:
    image.behave(hold=True)
    run.install("grpo-job")
    run.until_job("RUNNING")
    uid = kube.get("rayjob", run.run, run.namespace)["metadata"]["uid"]
    run.upgrade("grpo-job")
    run.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("grpo-job")
    job = kube.get("rayjob", run.run, run.namespace)
    assert job["metadata"]["labels"]["cost-centre"] == "17"
    assert job["metadata"]["uid"] == uid
    image.finish()
    run.until_job("SUCCEEDED")
    assert len(image.calls()) == 1


def test_a_newer_chart_passes_over_a_running_attempt(run: Stack, image: Image, kube: Kube) -> None:
    """As a GitOps fleet takes it: nothing of the values changed. The trainer does not notice, also not a rollback."""
    image.behave(hold=True)
    run.install("grpo-job")
    run.until_job("RUNNING")
    until(image.calls, "the trainer")
    before = kube.get("rayjob", run.run, run.namespace)
    newer = run.with_newer_programs("0.1.1")
    newer.upgrade("grpo-job")
    after = kube.get("rayjob", run.run, run.namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"]["helm.sh/chart"] == "grpo-job-0.1.1"
    assert "'grpo-job 0.1.1, sha256 " in after["spec"]["entrypoint"]
    with pytest.raises(HelmError, match=r"locked-raise-job\.attempt"):
        steps(newer, 11).upgrade("grpo-job")
    newer.roll_back("grpo-job", 1)
    assert kube.get("rayjob", run.run, run.namespace)["spec"] == before["spec"]
    image.finish()
    run.until_job("SUCCEEDED")
    assert len(image.calls()) == 1
    (start,) = run.starts()
    assert start["attempt"] == 1
    assert f"'{start['programs']}'" in before["spec"]["entrypoint"]
    assert start["programs"].startswith("grpo-job 0.1.0, sha256 ")


@ONE_HELM
def test_the_drivers_log_begins_with_the_run(run: Stack, image: Image, ray_heads: RayHeads) -> None:
    """Ray writes the entrypoint into it."""
    image.behave()
    run.install("grpo-job")
    status = run.until_job("SUCCEEDED")
    lines = jobs_api.ask(f"{status['jobId']}/logs", ray_heads.token)["logs"].splitlines()
    said = next(number for number, line in enumerate(lines) if line.startswith("grpo: run "))
    plan, entrypoint = (len(text.splitlines()) for text in (plan_text(run), run.entrypoint()))
    start = next(number for number, line in enumerate(lines) if line.startswith("Running entrypoint for job "))
    assert lines[start].endswith(f": # Attempt 1 of run {run.job}: the plan and the programs of the chart, packed.")
    assert said - start == entrypoint <= plan + 25
    assert not [line for line in lines[:said] if "import " in line]
    assert max(map(len, lines)) <= 4096


def test_a_higher_attempt_replaces_the_run(run: Stack, image: Image) -> None:
    """The old trainer needs longer to save than Ray waits: it is killed, and the new one must not start before that."""
    image.behave(hold=True, save_seconds=30)
    run.install("grpo-job")
    run.until_job("RUNNING")
    until(image.calls, "the first trainer")
    image.set(seconds=0.5)
    second = steps(run, 11).with_values(job={"attempt": 2})
    second.upgrade("grpo-job")
    second.until_job("SUCCEEDED", seconds=90)
    calls = image.calls()
    assert [yaml.safe_load(call.config)["grpo"]["max_num_steps"] for call in calls] == [10, 11]
    (_, first_end, _), (second_start, _, _) = image.writers()
    assert first_end < second_start


@ONE_HELM
def test_a_used_attempt_is_not_run_with_another_spec(run: Stack, image: Image) -> None:
    """Uninstall and install again: the lock is gone, and the run directory still knows what attempt 1 was."""
    image.behave()
    run.install("grpo-job")
    run.until_job("SUCCEEDED")
    run.uninstall("grpo-job")
    changed = steps(run, 11)
    changed.install("grpo-job")
    status = changed.until_job("FAILED")
    assert "raise job.attempt" in status["message"]
    assert len(image.calls()) == 1


@ONE_HELM
def test_layers_that_disagree_fail_within_seconds(run: Stack, image: Image) -> None:
    image.behave()
    started = time.monotonic()
    other = run.with_values(images={"training": {"tag": "v0.7.0-ours"}})
    other.install("grpo-job")
    status = other.until_job("FAILED")
    assert time.monotonic() - started < 20
    assert "image: the cluster has nvcr.io/nvidia/nemo-rl:v0.7.0" in status["message"]
    assert image.calls() == []


@ONE_HELM
def test_two_runs_of_one_stack_have_their_own_directories(run: Stack, image: Image) -> None:
    other = run.with_values(job={"name": f"other-{run.helm.program.name}"})
    image.behave(seconds=0.5)
    run.install("grpo-job")
    other.install("grpo-job")
    run.until_job("SUCCEEDED")
    other.until_job("SUCCEEDED")
    other.uninstall("grpo-job")
    folders = {yaml.safe_load(call.config)["checkpointing"]["checkpoint_dir"] for call in image.calls()}
    assert len(folders) == 2
