"""What a run survives in real pods: lost pods, a node and an API server that are away, and storage that fails.

The trainer is a stand-in without Ray actors: what NeMo RL itself makes of a lost worker is not shown here.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Installed
from harness import pods
from harness.commands import ask, explain
from harness.kube import Kube, Manifest
from harness.realnode import runtime
from harness.realnode.cluster import RealCluster
from harness.stack import Stack
from harness.waiting import report, until

pytestmark = pytest.mark.shared

# How long a trainer saves; less than the head may take.
SAVE = 4.0
# Seconds within which a live command says what it could not read; 10 are promised, on a machine that is not this busy.
SOON = 20.0


@pytest.fixture
def ready(shared: Installed) -> Installed:
    """The shared stack."""
    return shared


@pytest.fixture
def run(ready: Installed, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A run of its own name whose trainer goes on until the test lets it end."""
    ready.trainer.behave(hold=True, save_seconds=SAVE)
    run = ready.with_run(request.node.originalname.removeprefix("test_").replace("_", "-")[:24].strip("-"), retries=1)
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 120)
    yield run
    run.uninstall("grpo-job")
    whole(ready.stack)


def whole(stack: Stack) -> list[Manifest]:
    """Wait until the cluster has all its pods, ready, and return them."""

    def ready() -> list[Manifest]:
        found = stack.pods()
        return found if len(found) == 3 and all(map(pods.is_ready, found)) else []

    return until(ready, "three Ray pods that are ready", 300)


def uids(found: list[Manifest]) -> set[str]:
    """Return the identities of pods."""
    return {str(pod["metadata"]["uid"]) for pod in found}


def until_second_start(run: Stack, ready: Installed) -> None:
    """Wait until the trainer is started again."""
    since = time.time()
    until(lambda: len(ready.trainer.calls()) == 2, "a second start of the trainer", 300, seen=run.job_status)
    report("the trainer starts again", since)


def container(pod: Manifest) -> Manifest:
    """Return the status of the Ray container."""
    return dict(pod["status"]["containerStatuses"][0])


def test_the_kubelet_is_away(run: Stack, ready: Installed, cluster: RealCluster) -> None:
    """As in an upgrade of the node's programs: containers go on, and nothing is replaced."""
    before = uids(run.pods())
    node = cluster.nodes[run.pods()[0]["spec"]["nodeName"]]
    assert node.kubelet
    # Frozen, it takes every connection and answers none: what is asked for inside of a pod hangs.
    node.kubelet.process.send_signal(signal.SIGSTOP)
    for command in ("status", "why"):
        since = time.time()
        done = ask(command, run)
        report(f"grpo {command} beside a frozen kubelet ends", since)
        assert time.time() - since < SOON
        assert "status.json" in done.stdout, done.stdout + done.stderr
    cluster.programs.end(node.kubelet)
    time.sleep(20)
    node.start_kubelet()
    node.until_ready()
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 120)
    assert uids(run.pods()) == before
    assert len(ready.trainer.calls()) == 1


def test_the_api_server_is_away(run: Stack, ready: Installed, cluster: RealCluster) -> None:
    """The operator, a pod as well, ends and is started again with growing pauses: the news reach the RayJob late."""
    before = uids(run.pods())
    assert cluster.server.api
    cluster.programs.end(cluster.server.api)
    time.sleep(60)
    cluster.server.serve()
    since = time.time()
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 400)
    report("the RayJob says that the run has ended", since)
    assert uids(run.pods()) == before
    assert len(ready.trainer.calls()) == 1


def test_the_container_of_the_head_is_killed(run: Stack, ready: Installed, kube: Kube) -> None:
    """Ray's head process holds the driver: both are gone, and the run starts again on what comes back."""
    kube.execute(run.pods()[0], "sh", "-c", "kill -9 $(pgrep gcs_server) || true")
    until_second_start(run, ready)
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 180)


def test_the_head_pod_is_deleted(run: Stack, ready: Installed, kube: Kube) -> None:
    head = run.pods()[0]
    asked = time.time()
    kube.run("delete", "pod", head["metadata"]["name"], "--namespace", run.namespace, "--wait=false")
    until_second_start(run, ready)
    first, second = ready.trainer.writers()
    assert asked + SAVE < first[1], "the trainer could not save"
    assert first[1] < second[0], "two trainers wrote at once"
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 180)


def test_the_container_of_a_worker_is_killed(run: Stack, ready: Installed, cluster: RealCluster, kube: Kube) -> None:
    """It starts again in the same pod, and joins the same head."""
    before, worker = uids(run.pods()), run.pods()[-1]
    machine, since = cluster.nodes[worker["spec"]["nodeName"]].machine, time.time()
    runtime.kill(machine, cluster.tools, container(worker)["containerID"].removeprefix("containerd://"))

    def ended() -> Manifest | None:
        now = container(kube.get("pod", worker["metadata"]["name"], run.namespace))
        # The workers of a head that was killed have started again before.
        again = now["restartCount"] > container(worker)["restartCount"]
        return now["lastState"]["terminated"] if again else None

    assert until(ended, "the container starts again", 60)["exitCode"] == 137
    assert uids(whole(run)) == before
    report("three nodes are ready", since)
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 180)
    assert len(ready.trainer.calls()) == 1


def test_a_worker_is_deleted_by_force(run: Stack, ready: Installed, kube: Kube) -> None:
    worker = run.pods()[-1]
    words, since = ["--namespace", run.namespace, "--grace-period=0", "--force"], time.time()
    kube.run("delete", "pod", worker["metadata"]["name"], *words)
    after = whole(run)
    assert len(uids(after) & uids([worker])) == 0
    report("three nodes are ready", since)
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 180)


@pytest.fixture
def volumes(work: Path) -> Iterator[Path]:
    """The file system of all claims; it has room again afterwards."""
    folder = work / "volumes"
    yield folder
    (folder / "filler").unlink(missing_ok=True)


def fill(folder: Path) -> None:
    """Leave no room in a file system."""
    with (folder / "filler").open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(1 << 20))


def test_the_volume_is_full(ready: Installed, volumes: Path, kube: Kube, tmp_path: Path) -> None:
    """The trainer cannot write: the run fails with the words of the file system, and a later attempt goes on."""
    ready.trainer.behave(hold=True, save_seconds=1)
    run = ready.with_run("volume-full")
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 120)
    fill(volumes)
    since = time.time()
    status = run.until_job("FAILED", 300)
    report("the run has failed", since)
    assert "No space left on device" in status["message"] + kube.logs(run.pods()[0], "--tail=-1")
    causes, shown = explain(run, tmp_path)
    assert (causes[0], bool(shown["reason"])) == ("disk-full", True), causes
    (volumes / "filler").unlink()
    ready.trainer.set(seconds=1)
    second = run.with_values(job={"attempt": 2})
    second.upgrade("grpo-job")
    second.until_job("SUCCEEDED", 240)
    second.uninstall("grpo-job")
