"""A job that the operator could not submit: the list of jobs at the head stays empty, and what ends that."""

from __future__ import annotations

import time

from conftest import NewStack
from harness import jobs_api
from harness.kube import Kube
from harness.rayhead import RayHeads
from harness.waiting import until

# KubeRay's pauses double from 5 ms. One begins after 82 seconds and lasts as long again: a head is up before it ends.
OUTAGE_SECONDS = 85


def test_a_change_of_the_rayjob_ends_the_pause(new_stack: NewStack, ray_heads: RayHeads, kube: Kube) -> None:
    """The operator cannot reach the head; once it can, it goes on waiting, until somebody touches the RayJob."""
    stack = new_stack("b200")
    stack.install("storage", "raycluster")
    stack.until_ready()
    stack.install("grpo-job")
    until(lambda: stack.job_status().get("jobDeploymentStatus") == "Running", "a RayJob that runs", 30)
    time.sleep(OUTAGE_SECONDS)
    ray_heads.without_workers.add(stack.namespace)
    ray_heads.namespaces.add(stack.namespace)
    try:
        ray_heads.until_up(stack.namespace)
        time.sleep(5)
        assert jobs_api.ask("") == []
        kube.run("annotate", "rayjob", stack.run, "-n", stack.namespace, "try-again=now")
        until(lambda: jobs_api.ask(""), "a job at the head", 5)
        assert [each["submission_id"] for each in jobs_api.ask("")] == [stack.job_status()["jobId"]]
        stack.uninstall("grpo-job", "raycluster", "storage")
    finally:
        ray_heads.namespaces.discard(stack.namespace)
