"""examples/argocd/health.yaml judges each state as it should, in Argo CD's Lua: 5.1, with few libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from tests.conftest import ROOT

SCRIPTS = yaml.safe_load((ROOT / "examples/argocd/health.yaml").read_text(encoding="utf-8"))["data"]
PREFIX = "resource.customizations.health."
Judge = Callable[..., tuple[str, str]]


def judge(kind: str, **parts: Any) -> tuple[str, str]:
    """Return the health and the message for an object of a kind."""
    lua = LuaRuntime()
    for library in ("string", "os", "io", "math", "debug", "require"):
        lua.globals()[library] = None
    item = {"metadata": {"name": "x", "generation": 2}, "spec": {}, **parts}
    lua.globals().obj = lua.table_from(item, recursive=True)
    answer = lua.execute(SCRIPTS[PREFIX + kind])
    assert answer.message, item
    return str(answer.status), str(answer.message)


def test_health_checks_exist_for_exactly_three_kinds() -> None:
    assert {key.removeprefix(PREFIX) for key in SCRIPTS} == {
        "ray.io_RayCluster",
        "ray.io_RayJob",
        "PersistentVolumeClaim",
    }


READY = {"state": "ready", "desiredWorkerReplicas": 2, "readyWorkerReplicas": 2, "observedGeneration": 2}
HEAD_DOWN = {"conditions": [{"type": "HeadPodReady", "status": "False"}]}
CLUSTERS = {
    "new": (None, "Progressing"),
    "empty": ({}, "Progressing"),
    "ready": (READY, "Healthy"),
    "ready without workers": ({"state": "ready"}, "Healthy"),
    "ready with its head": ({**READY, "conditions": [{"type": "HeadPodReady", "status": "True"}]}, "Healthy"),
    "one worker lost": ({**READY, "readyWorkerReplicas": 1}, "Progressing"),
    "all workers lost": ({"state": "ready", "desiredWorkerReplicas": 2}, "Progressing"),
    "head lost": ({**READY, **HEAD_DOWN}, "Progressing"),
    "failed": ({"state": "failed", "reason": "no quota"}, "Degraded"),
    "no pods": ({"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]}, "Degraded"),
    "suspended": ({"state": "suspended"}, "Suspended"),
    "suspended condition": ({**READY, "conditions": [{"type": "RayClusterSuspended", "status": "True"}]}, "Suspended"),
}


@pytest.mark.parametrize("case", CLUSTERS)
def test_the_raycluster_health_follows_its_status(case: str) -> None:
    status, health = CLUSTERS[case]
    parts = {} if status is None else {"status": status}
    assert judge("ray.io_RayCluster", **parts)[0] == health


def test_a_raycluster_waiting_in_a_queue_is_suspended() -> None:
    assert judge("ray.io_RayCluster", spec={"suspend": True})[0] == "Suspended"


def test_the_generation_matters_only_if_kuberay_recreates_pods() -> None:
    """With ray.upgrade manual KubeRay 1.6 may never write it."""
    old = {**READY, "observedGeneration": 1}
    assert judge("ray.io_RayCluster", status=old)[0] == "Healthy"
    recreate = {"upgradeStrategy": {"type": "Recreate"}}
    assert judge("ray.io_RayCluster", status=old, spec=recreate)[0] == "Progressing"
    assert judge("ray.io_RayCluster", status=READY, spec=recreate) == ("Healthy", "2 workers are ready")


JOBS = {
    "new": (None, "Progressing"),
    "waits for its cluster": ({"jobDeploymentStatus": "Initializing"}, "Progressing"),
    "pending": ({"jobDeploymentStatus": "Running", "jobStatus": "PENDING"}, "Progressing"),
    "running": ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "Healthy"),
    "succeeded": ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "Healthy"),
    "failed": ({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "exit code 1"}, "Degraded"),
    "never submitted": ({"jobDeploymentStatus": "Failed", "reason": "SubmissionFailed"}, "Degraded"),
    "refused": ({"jobDeploymentStatus": "ValidationFailed"}, "Degraded"),
    "stopped": ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "Degraded"),
    "again": ({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, "Progressing"),
    "suspended": ({"jobDeploymentStatus": "Suspended"}, "Suspended"),
    "suspending": ({"jobDeploymentStatus": "Suspending", "jobStatus": "RUNNING"}, "Suspended"),
}


@pytest.mark.parametrize("case", JOBS)
def test_the_rayjob_health_follows_its_status(case: str) -> None:
    status, health = JOBS[case]
    parts = {} if status is None else {"status": status}
    assert judge("ray.io_RayJob", **parts)[0] == health


def test_the_health_of_a_failed_rayjob_includes_the_reason() -> None:
    assert judge("ray.io_RayJob", status=JOBS["failed"][0])[1] == "exit code 1"
    assert judge("ray.io_RayJob", status=JOBS["never submitted"][0])[1] == "SubmissionFailed"


@pytest.mark.parametrize(
    ("phase", "ours", "theirs"),
    [("Bound", "Healthy", "Healthy"), ("Pending", "Healthy", "Progressing"), ("Lost", "Degraded", "Degraded")],
)
def test_only_the_charts_claims_may_be_pending(phase: str, ours: str, theirs: str) -> None:
    labels = {"app.kubernetes.io/name": "storage", "app.kubernetes.io/part-of": "gemma"}
    kind = "PersistentVolumeClaim"
    assert judge(kind, metadata={"labels": labels}, status={"phase": phase})[0] == ours
    assert judge(kind, status={"phase": phase})[0] == theirs


def test_a_pending_claim_from_the_storage_chart_is_healthy() -> None:
    golden = (ROOT / "tests/goldens/gemma3-27b-gsm8k-b200/storage.yaml").read_text(encoding="utf-8")
    (claim,) = [each for each in yaml.safe_load_all(golden) if each and each["kind"] == "PersistentVolumeClaim"]
    assert judge("PersistentVolumeClaim", metadata=claim["metadata"], status={"phase": "Pending"})[0] == "Healthy"
