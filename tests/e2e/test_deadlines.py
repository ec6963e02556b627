"""The limits of an attempt that only KubeRay keeps: no head answers."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import NewStack
from harness.kube import Kube
from harness.waiting import until

pytestmark = pytest.mark.ci


def test_a_run_fails_if_its_cluster_never_appears(new_stack: NewStack, kube: Kube) -> None:
    run = new_stack("b200", job={"cluster": {"timeoutSeconds": 5}})
    run.install("grpo-job")

    def failed() -> dict[str, Any] | None:
        status = run.job_status()
        return status if status.get("jobDeploymentStatus") == "Failed" else None

    status = until(failed, "Failed", 60, seen=run.job_status)
    assert status["reason"] == "PreRunningDeadlineExceeded"
    assert "RayClusterNotFound" in kube.events(run.namespace)
    run.uninstall("grpo-job")
