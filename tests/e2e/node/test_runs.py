"""Runs in real pods, by both Helms: success, failure, a retry, an uninstall that saves, and a new attempt."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from conftest import Installed, NewStack, installed
from harness.helm import HelmError
from harness.kube import Kube
from harness.waiting import until

# Both Helms render the same for both machines: the other suite compares all four.
COMBINATIONS = ["helm3-h200", pytest.param("shared", marks=pytest.mark.shared)]


@pytest.fixture(scope="module", params=COMBINATIONS)
def ready(request: pytest.FixtureRequest, new_stack: NewStack) -> Iterator[Installed]:
    """A stack whose cluster is ready, which all runs of this module share."""
    if request.param == "shared":
        yield request.getfixturevalue("shared")
        return
    helm, accelerator = request.param.split("-")
    with installed(new_stack(accelerator, helm, ray={"head": {"jobStopSeconds": 20}})) as found:
        yield found


def test_ray_has_all_nodes_and_their_gpus(ready: Installed, kube: Kube) -> None:
    head, *workers = ready.stack.pods()
    assert len({pod["spec"]["nodeName"] for pod in [head, *workers]}) == 3
    code = "import ray; ray.init('auto', logging_level='ERROR'); print(ray.cluster_resources()['GPU'])"
    assert kube.execute(head, "python3", "-c", code).split()[-1] == "16.0"


def test_ray_has_the_settings_of_the_machine(ready: Installed, kube: Kube) -> None:
    """Bash reads the script of the installer before it starts Ray; Ray's actors inherit what it says."""
    for worker in ready.stack.pods()[1:]:
        environment = kube.execute(worker, "sh", "-c", "tr '\\0' '\\n' </proc/$(pgrep -o raylet)/environ").splitlines()
        assert {"NCCL_IB_TC=52", "NCCL_NET=gIB"} <= set(environment)


def test_an_upgrade_that_would_replace_pods_is_refused_under_a_run(ready: Installed) -> None:
    """The hook is a pod that asks Ray: it needs the token, the network policy and the cluster's DNS to be right."""
    ready.trainer.behave(hold=True)
    run = ready.with_run("goes-on")
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 180)
    before = {pod["metadata"]["uid"] for pod in run.pods()}
    with pytest.raises(HelmError, match=f"{run.cluster}-idle-check"):
        run.with_values(ray={"env": {"NCCL_DEBUG": {"value": "INFO"}}}).upgrade("raycluster")
    run.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("raycluster")
    assert {pod["metadata"]["uid"] for pod in run.pods()} == before
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 120)
    assert len(ready.trainer.calls()) == 1
    run.uninstall("grpo-job")


def test_a_run_succeeds(ready: Installed) -> None:
    ready.trainer.behave(seconds=1)
    run = ready.with_run("succeeds")
    run.install("grpo-job")
    run.until_job("SUCCEEDED", 180)
    assert len(ready.trainer.calls()) == 1
    run.uninstall("grpo-job")


def test_a_failed_trainer_is_retried_and_then_fails(ready: Installed) -> None:
    ready.trainer.behave(exit=7)
    run = ready.with_run("fails", retries=1)
    run.install("grpo-job")
    status = run.until_job("FAILED", 240)
    assert "exit code 7" in status["message"]
    assert len(ready.trainer.calls()) == 2
    run.uninstall("grpo-job")


def test_an_uninstall_lets_the_trainer_save(ready: Installed) -> None:
    ready.trainer.behave(hold=True, save_seconds=4)
    run = ready.with_run("saves")
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 180)
    asked = time.time()
    run.uninstall("grpo-job")
    until(lambda: time.time() - ready.trainer.writers()[-1][1] > 3, "the end of the trainer", 60)
    assert ready.trainer.writers()[-1][1] - asked > 4


def test_a_new_attempt_takes_over(ready: Installed) -> None:
    ready.trainer.behave(hold=True, save_seconds=1)
    run = ready.with_run("again")
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 180)
    ready.trainer.set(seconds=1)
    second = run.with_values(job={"attempt": 2})
    second.upgrade("grpo-job")
    second.until_job("SUCCEEDED", 240)
    first, last = ready.trainer.writers()
    assert first[1] < last[0], "two trainers wrote at once"
    second.uninstall("grpo-job")
