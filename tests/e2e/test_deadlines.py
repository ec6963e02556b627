"""Time to save before pods end, limits of an attempt, and a RayJob whose cluster does not exist any more."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness import containers, jobs_api
from harness.image import Image
from harness.kube import Kube
from harness.rayhead import EXTRA, RayHeads
from harness.stack import Stack
from harness.waiting import until

SAVE = 6.0


@pytest.fixture(params=["helm4"])
def run(request: pytest.FixtureRequest, new_stack: NewStack, ray_heads: RayHeads, image: Image) -> Iterator[Stack]:
    """A cluster with a real head, and a run on it whose trainer needs some seconds to save."""
    image.behave(hold=True, save_seconds=SAVE)
    with ray_heads.running(new_stack("b200", request.param, ray={"head": {"jobStopSeconds": 20}})) as stack:
        yield stack


def started(run: Stack, image: Image) -> None:
    """Install the run and wait for its trainer."""
    run.install("grpo-job")
    run.until_job("RUNNING")
    until(image.calls, "the trainer")


def output(run: Stack, attempt: int = 1) -> str:
    """Return what the attempt has written on the volume."""
    file = run.on_volume(f"/data/runs/{run.job}/attempts/{attempt}/output.log")
    return file.read_text() if file.exists() else ""


def saved(image: Image, number: int = 0) -> float:
    """Return for how long a trainer went on after the first sign that it was asked to stop."""
    first, last, _ = image.writers()[number]
    return last - first


def test_a_head_that_goes_lets_the_trainer_save_and_the_next_one_resumes(
    run: Stack, image: Image, kube: Kube
) -> None:
    started(run, image)
    head = run.pods()[0]["metadata"]["name"]
    asked = time.time()
    kube.run("delete", "pod", head, "--namespace", run.namespace, "--wait=false")
    until(lambda: "trainer: SIGTERM, saving" in output(run), "SIGTERM", seen=lambda: output(run))
    until(lambda: len(image.calls()) == 2, "the next trainer", seconds=120, seen=run.job_status)
    (_, last, _), (second, _, _) = image.writers()
    assert last - asked >= SAVE
    assert second > last
    assert run.job_status()["jobStatus"] == "RUNNING"
    image.finish()
    run.until_job("SUCCEEDED")
    run.uninstall("grpo-job")
