"""Runs in real pods, by both Helms: success, failure, a retry, an uninstall that saves, and a new attempt."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from conftest import GPU_NODES, RAY, Installed, NewStack, installed
from harness.helm import HelmError
from harness.image import CODE
from harness.kube import Kube
from harness.nodes import Profile
from harness.realnode.cluster import RealCluster
from harness.realnode.gpus import install_driver
from harness.stack import TOKEN, Stack
from harness.waiting import until

# Both Helms render the same for both machines: the other suite compares all four.
COMBINATIONS = ["helm3-h200", pytest.param("shared", marks=pytest.mark.shared)]
FOR_CI = ["helm3-h200", pytest.param("shared", marks=[pytest.mark.shared, pytest.mark.ci])]
OPEN = {"tokenAuth": {"enabled": False}, "networkPolicy": {"enabled": False}}


@pytest.fixture(scope="module", params=COMBINATIONS)
def ready(request: pytest.FixtureRequest, new_stack: NewStack) -> Iterator[Installed]:
    """A stack whose cluster is ready, which all runs of this module share."""
    if request.param == "shared":
        yield request.getfixturevalue("shared")
        return
    helm, accelerator = request.param.split("-")
    with installed(new_stack(accelerator, helm, ray=RAY)) as found:
        yield found


def with_steps(run: Stack, number: int) -> Stack:
    """Change the specification of a run."""
    return run.with_values(job={"config": {"grpo": {"max_num_steps": number}}})


def test_ray_sees_all_nodes_and_their_gpus(ready: Installed, kube: Kube) -> None:
    head, *workers = ready.stack.pods()
    assert len({pod["spec"]["nodeName"] for pod in [head, *workers]}) == 3
    code = "import json, ray; ray.init('auto', logging_level='ERROR'); print(json.dumps(ray.nodes()))"
    # The shared stack has lost nodes in the tests of faults.
    known = json.loads(kube.execute(head, "python3", "-c", code).splitlines()[-1])
    found = [node["Resources"] for node in known if node["Alive"]]
    assert sorted(node.get("GPU", 0) for node in found) == [0, 8, 8]
    (of_head,) = [node for node in found if "node:__internal_head__" in node]
    assert "CPU" not in of_head, "Ray would put actors on the head"


def test_ray_inherits_the_settings_of_the_machine(ready: Installed, kube: Kube) -> None:
    """Bash reads the script of the installer before it starts Ray; Ray's actors inherit what it says."""
    for worker in ready.stack.pods()[1:]:
        environment = kube.execute(worker, "sh", "-c", "tr '\\0' '\\n' </proc/$(pgrep -o raylet)/environ").splitlines()
        assert {"NCCL_IB_TC=52", "NCCL_NET=gIB"} <= set(environment)


def test_nccl_net_is_set_even_without_the_machines_script(
    ready: Installed, kube: Kube, cluster: RealCluster, profiles: dict[str, Profile]
) -> None:
    """Bash says nothing of a missing script and goes on. NCCL_NET is set, so that NCCL refuses TCP."""
    worker = ready.stack.pods()[-1]
    node = cluster.nodes[worker["spec"]["nodeName"]]
    assert node.name in GPU_NODES
    node.machine.run("sh", "-c", "rm /home/kubernetes/bin/gib/scripts/*")
    environment = kube.execute(worker, "bash", "-c", "env").splitlines()
    install_driver(node, profiles[ready.stack.accelerator])
    assert "NCCL_NET=gIB" in environment
    assert "NCCL_IB_TC=52" not in environment


@pytest.mark.parametrize("ready", FOR_CI, indirect=True, scope="module")
def test_upgrades_during_a_run_never_end_it(ready: Installed, kube: Kube) -> None:
    """The hook is a pod that asks Ray: it needs the token, the network policy and the cluster's DNS to be right."""
    ready.trainer.behave(hold=True)
    run = ready.with_run("goes-on")
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 180)
    before = {pod["metadata"]["uid"] for pod in run.pods()}
    for change in ({"env": {"NCCL_DEBUG": {"value": "INFO"}}}, OPEN):
        with pytest.raises(HelmError, match=f"{run.cluster}-idle-check"):
            run.with_values(ray=change).upgrade("raycluster")
    run.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("raycluster")
    assert {pod["metadata"]["uid"] for pod in run.pods()} == before
    with pytest.raises(HelmError, match=r"locked-raise-job\.attempt"):
        with_steps(run, 11).upgrade("grpo-job")
    newer = run.with_newer_programs("0.1.1")
    newer.upgrade("grpo-job")
    newer.roll_back("grpo-job", 1)
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 120)
    (call,) = ready.trainer.calls()
    assert yaml.safe_load(call.config)["grpo"]["max_num_steps"] == 10
    (start,) = run.starts()
    assert (start["attempt"], start["programs"].split(",")[0]) == (1, "grpo-job 0.1.0")
    run.uninstall("grpo-job")


@pytest.fixture(scope="module")
def succeeded(ready: Installed) -> Iterator[Stack]:
    """A run that has ended well; its trainer has been called once."""
    ready.trainer.behave(seconds=1)
    run = ready.with_run("succeeds", env={"E2E_JOB": {"value": "it's $HOME"}})
    run.install("grpo-job")
    assert run.until_job("SUCCEEDED", 180)["jobDeploymentStatus"] == "Complete"
    yield run
    run.uninstall("grpo-job")


def test_the_trainer_is_started_as_the_image_expects(succeeded: Stack, ready: Installed) -> None:
    (call,) = ready.trainer.calls()
    assert call.cwd == CODE
    assert call.argv[:2] == ["examples/run_grpo.py", "--config"]
    config = yaml.safe_load(call.config)
    recipe = yaml.safe_load((succeeded.repository / "values/recipes/gemma3-27b-gsm8k.yaml").read_text())
    assert config["cluster"] == {"num_nodes": 2, "gpus_per_node": 8}
    assert config["grpo"] == recipe["job"]["config"]["grpo"]
    assert config["policy"]["optimizer"]["kwargs"]["lr"] == pytest.approx(3e-7)
    assert f"/data/runs/{succeeded.job}/" in config["checkpointing"]["checkpoint_dir"]


def literal(pod: dict[str, Any]) -> dict[str, str | None]:
    """Return the variables of a Ray container whose value the pod states."""
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}


def test_the_driver_has_the_environment_of_the_head(succeeded: Stack, ready: Installed) -> None:
    (call,) = ready.trainer.calls()
    assert call.environ["HF_TOKEN"] == TOKEN
    assert call.environ["HF_HOME"] == "/data/huggingface"
    found = {name: value for name, value in call.environ.items() if name.startswith("E2E_")}
    assert found == {"E2E_ALL": "head", "E2E_SECRET": TOKEN, "E2E_JOB": "it's $HOME"}
    for worker in succeeded.pods()[1:]:
        own = literal(worker)
        # NeMo RL hands the driver's environment to every worker: what differs would overwrite the worker's own.
        assert call.environ["LD_LIBRARY_PATH"] == own["LD_LIBRARY_PATH"]
        assert "PATH" not in own or call.environ["PATH"] == own["PATH"]
        assert not {name for name in own if name.startswith("NCCL_")} & set(call.environ)


def test_the_driver_log_begins_with_the_name_of_the_run(succeeded: Stack, kube: Kube) -> None:
    """Ray writes the entrypoint into it."""
    file = f"/tmp/ray/session_latest/logs/job-driver-{succeeded.job_status()['jobId']}.log"
    lines = kube.execute(succeeded.pods()[0], "cat", file).splitlines()
    said = next(number for number, line in enumerate(lines) if line.startswith("grpo: run "))
    entrypoint = succeeded.entrypoint()
    plan = entrypoint.split("GRPO_PLAN'\n", 1)[1].split("\nGRPO_PLAN\n", 1)[0]
    start = next(number for number, line in enumerate(lines) if line.startswith("Running entrypoint for job "))
    title = f": # Attempt 1 of run {succeeded.job}: the plan and the programs of the chart, packed. "
    assert title in lines[start]
    assert said - start == len(entrypoint.splitlines()) <= len(plan.splitlines()) + 30
    # But for the one that unpacks them, no line of the programs is readable.
    assert not [line for line in lines[:said] if "import " in line and "tarfile.open" not in line]
    assert max(map(len, lines)) <= 4096


def test_a_failed_trainer_is_retried_and_then_fails(ready: Installed) -> None:
    ready.trainer.behave(exit=7)
    run = ready.with_run("fails", retries=1)
    run.install("grpo-job")
    status = run.until_job("FAILED", 240)
    assert "exit code 7" in status["message"]
    assert "the trainer ended with exit code 7; evidence: " in status["message"]
    folders = sorted(run.on_volume("/data/runs/fails/attempts/1/evidence").iterdir())
    assert [(folder / "complete.txt").is_file() for folder in folders] == [True, True]
    assert len(ready.trainer.calls()) == 2
    run.uninstall("grpo-job")


def test_an_uninstall_gives_the_trainer_time_to_save(ready: Installed) -> None:
    ready.trainer.behave(hold=True, save_seconds=4)
    run = ready.with_run("saves")
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 180)
    asked = time.time()
    run.uninstall("grpo-job")
    until(lambda: time.time() - ready.trainer.writers()[-1][1] > 3, "the end of the trainer", 60)
    assert ready.trainer.writers()[-1][1] - asked > 4


def test_a_new_attempt_resumes_from_the_last_checkpoint(ready: Installed) -> None:
    ready.trainer.behave(hold=True, save_seconds=1, steps=2)
    run = ready.with_run("again")
    run.install("grpo-job")
    until(ready.trainer.writers, "a trainer that has saved", 180)
    ready.trainer.set(seconds=1, steps=2)
    second = with_steps(run, 11).with_values(job={"attempt": 2})
    second.upgrade("grpo-job")
    second.until_job("SUCCEEDED", 240)
    first, last = ready.trainer.writers()
    assert first[1] < last[0], "two trainers wrote at once"
    assert ready.trainer.starts() == [0, 2]
    used = [yaml.safe_load(call.config)["grpo"]["max_num_steps"] for call in ready.trainer.calls()]
    assert used == [10, 11]
    second.uninstall("grpo-job")
