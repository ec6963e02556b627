"""A RayJob that its operator never hands to Ray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.cluster.evidence import Evidence
from grpo.cluster.expected import Expected
from grpo.live import bundle, submission
from tests.live import bundles

LONG_AGO = "2025-11-24T15:46:00Z"
# The bundle was read 14 minutes later.
SAID = (
    "RayJob run-1: its job has not been submitted, although all pods have been ready for 14 min: the operator has not "
    "reached port 8265 of the head"
)
# KubeRay calls a job Running before it has asked the head for it, and as long as no answer comes.
STATES: list[dict[str, Any]] = [
    {"jobDeploymentStatus": "Initializing"},
    {"jobDeploymentStatus": "Running"},
    {"jobDeploymentStatus": "Running", "jobStatus": ""},
]


def stuck(state: dict[str, Any], ready: str = LONG_AGO) -> Evidence:
    evidence = bundles.evidence()
    for pod in evidence.objects["pods"]:
        pod["status"]["conditions"][0]["lastTransitionTime"] = ready
    evidence.objects["rayjobs"][0]["status"] = state
    evidence.record = {}
    return evidence


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("command", ["status", "why"])
def test_an_unsubmitted_job_is_reported_with_its_waiting_time(
    state: dict[str, Any], command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle.write(str(tmp_path / "b"), stuck(state))
    assert cli.main([command, "--from", str(tmp_path / "b")]) == 1
    shown = capsys.readouterr().out
    assert SAID in shown
    assert command == "status" or "\n1. job-not-submitted (configuration)" in shown
    assert cli.main([command, "--from", str(tmp_path / "b"), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["healthy"] is False


@pytest.mark.parametrize(
    "state",
    [
        {"jobDeploymentStatus": "Running", "jobStatus": "PENDING"},
        {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"},
        {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
        {"jobDeploymentStatus": "Suspended"},
        {"jobDeploymentStatus": "Waiting"},
    ],
)
def test_a_submitted_or_otherwise_waiting_job_is_not_reported(state: dict[str, Any]) -> None:
    assert submission.delay(stuck(state)) is None


def test_the_operator_gets_two_minutes_from_the_last_pod_or_the_job() -> None:
    evidence = stuck(STATES[0])
    evidence.objects["pods"][1]["status"]["conditions"][0]["lastTransitionTime"] = "2025-11-24T15:59:00Z"
    assert submission.delay(evidence) is None
    evidence = stuck(STATES[0])
    # A job on a cluster that was ready before it.
    evidence.objects["rayjobs"][0]["metadata"] = {"name": "run-1", "creationTimestamp": "2025-11-24T15:59:00Z"}
    assert submission.delay(evidence) is None
    evidence.time += 120
    assert submission.delay(evidence) == 180


@pytest.mark.parametrize("time", ["", "yesterday"])
def test_nothing_is_judged_without_a_timestamp(time: str) -> None:
    assert submission.delay(stuck(STATES[0], time)) is None


def test_a_job_waiting_for_an_unready_pod_is_not_reported() -> None:
    evidence = stuck(STATES[0])
    evidence.objects["pods"][1]["status"]["conditions"][0]["status"] = "False"
    assert submission.delay(evidence) is None


def test_only_pods_of_the_jobs_current_cluster_count() -> None:
    """KubeRay names it; pods of an earlier cluster of the same job do not count."""
    evidence = stuck({"jobDeploymentStatus": "Running", "rayClusterName": "run-1-x"})
    (cluster,) = evidence.expected.objects["raycluster"]
    job = {"kind": "RayJob", "metadata": {"name": "run-1"}, "spec": {"rayClusterSpec": cluster["spec"]}}
    evidence.expected = Expected("s", "rl", {"grpo-job": "run"}, {"grpo-job": [job]})
    assert submission.delay(evidence) is None
    for pod in evidence.objects["pods"]:
        pod["metadata"]["labels"]["ray.io/cluster"] = "run-1-x"
    assert submission.delay(evidence) == 840
