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
from harness.helm import HelmError
from harness.kube import Kube, KubectlError, Manifest
from harness.realnode import runtime
from harness.realnode.cluster import OPERATOR, RealCluster
from harness.stack import Stack
from harness.waiting import report, until

pytestmark = pytest.mark.shared

# How long a trainer saves; less than the head may take.
SAVE = 4.0
# The checkpoints that the first trainer of a run leaves; one that is started again adds one.
STEPS = 2
# Ray starts within a minute on an idle machine, but a busy one has taken more than five.
PATIENCE_SECONDS = 900


@pytest.fixture
def ready(shared: Installed) -> Installed:
    """The shared stack."""
    return shared


@pytest.fixture
def run(ready: Installed, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A run of its own name whose trainer has saved its steps, and goes on until the test lets it end."""
    run = ready.with_run(request.node.originalname.removeprefix("test_").replace("_", "-")[:24].strip("-"), retries=1)
    begin(run, ready, SAVE)
    yield run
    run.uninstall("grpo-job")
    whole(ready.stack)


def begin(run: Stack, ready: Installed, save_seconds: float) -> None:
    """Start a run, and wait until its trainer has saved its steps and the RayJob says that it runs."""
    ready.trainer.behave(hold=True, save_seconds=save_seconds, steps=STEPS)
    run.install("grpo-job")
    until(ready.trainer.writers, "a trainer that has saved", 120)
    run.until_job("RUNNING", 30)
    ready.trainer.set(hold=True, save_seconds=save_seconds, steps=STEPS + 1)


def let_end(run: Stack, ready: Installed, starts: list[int], seconds: float = 180) -> None:
    """Let the trainer end: the run succeeds, and its trainers went on from `starts`, so no step was trained twice."""
    ready.trainer.finish()
    assert run.until_job("SUCCEEDED", seconds)["message"] == "Job finished successfully."
    check_starts(run, ready, starts)


def check_starts(run: Stack, ready: Installed, starts: list[int]) -> None:
    """Check from which step each trainer of a run went on, and what they have saved together."""
    assert ready.trainer.starts() == starts
    assert len(ready.trainer.calls()) == len(starts)
    steps = run.on_volume(f"/data/runs/{run.job}/checkpoints").iterdir()
    assert {path.name for path in steps} == {f"step_{number}" for number in range(1, STEPS + len(starts))}


def whole(stack: Stack) -> list[Manifest]:
    """Wait until the cluster has all its pods, ready, and return them."""

    def ready() -> list[Manifest]:
        found = stack.pods()
        return found if len(found) == 3 and all(map(pods.is_ready, found)) else []

    return until(ready, "three Ray pods that are ready", PATIENCE_SECONDS)


def uids(found: list[Manifest]) -> set[str]:
    """Return the identities of pods."""
    return {str(pod["metadata"]["uid"]) for pod in found}


def until_second_start(run: Stack, ready: Installed) -> None:
    """Wait until the trainer is started again; all the time the RayJob says that it runs."""
    since, seen = time.time(), set[tuple[str, str]]()

    def started() -> bool:
        status = run.job_status()
        seen.add((status["jobDeploymentStatus"], status["jobStatus"]))
        return len(ready.trainer.starts()) == 2

    until(started, "a second start of the trainer", PATIENCE_SECONDS, seen=run.job_status)
    report("the trainer starts again", since)
    # Ray says PENDING for a moment after KubeRay has submitted the job again.
    assert seen <= {("Running", "RUNNING"), ("Running", "PENDING")}


def container(pod: Manifest) -> Manifest:
    """Return the status of the Ray container."""
    return dict(pod["status"]["containerStatuses"][0])


def restarts(found: list[Manifest]) -> int:
    """Count how often the containers of pods have started again."""
    return sum(container(pod)["restartCount"] for pod in found)


def driver_log(run: Stack, kube: Kube) -> str:
    """Return what a run has printed since the head's Ray has started."""
    file = f"/tmp/ray/session_latest/logs/job-driver-{run.job_status()['jobId']}.log"
    return kube.execute(run.pods()[0], "cat", file)


def test_a_run_survives_a_kubelet_outage(run: Stack, ready: Installed, cluster: RealCluster) -> None:
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
        assert "status.json" in done.stdout, done.stdout + done.stderr
    cluster.programs.end(node.kubelet)
    time.sleep(20)
    node.start_kubelet()
    node.until_ready()
    let_end(run, ready, [0], 120)
    assert uids(run.pods()) == before


def test_a_run_survives_an_api_server_outage(run: Stack, ready: Installed, cluster: RealCluster, kube: Kube) -> None:
    """The operator, a pod as well, ends and is started again with growing pauses: the news reach the RayJob late."""
    before, earlier = uids(run.pods()), restarts(kube.list("pods", OPERATOR))
    assert cluster.server.api
    cluster.programs.end(cluster.server.api)
    back = time.time() + 60
    with pytest.raises(KubectlError, match="was refused"):
        kube.run("get", "pods", "--namespace", run.namespace)
    with pytest.raises(HelmError, match="connection refused"):
        run.helm.run("list", "--namespace", run.namespace)
    time.sleep(max(0.0, back - time.time()))
    cluster.server.serve()
    since = time.time()
    let_end(run, ready, [0], 400)
    report("the RayJob says that the run has ended", since)
    assert uids(run.pods()) == before
    until(lambda: restarts(kube.list("pods", OPERATOR)) > earlier, "a restart of the operator", 60)


def test_a_run_restarts_after_the_head_container_is_killed(run: Stack, ready: Installed, kube: Kube) -> None:
    """Ray's head process holds the driver: both are gone, and the run starts again on what comes back.

    Nobody has released the run, so the second start waits for the first one's silence.
    """
    before = run.pods()
    kube.execute(before[0], "sh", "-c", "kill -9 $(pgrep gcs_server) || true")
    until_second_start(run, ready)
    after = run.pods()
    assert uids(after) == uids(before)
    assert restarts(after[:1]) > restarts(before[:1])
    assert container(after[0])["lastState"]["terminated"]["exitCode"] == 1
    assert f"taking over after {run.values['job']['lapseSeconds']} s" in driver_log(run, kube)
    let_end(run, ready, [0, STEPS])


def test_a_run_restarts_after_the_head_pod_is_deleted(run: Stack, ready: Installed, kube: Kube) -> None:
    head = run.pods()[0]
    asked = time.time()
    kube.run("delete", "pod", head["metadata"]["name"], "--namespace", run.namespace, "--wait=false")
    until_second_start(run, ready)
    first, second = until(lambda: len(found := ready.trainer.writers()) == 2 and found, "two trainers' signs of life")
    assert asked + SAVE < first[1], "the trainer could not save"
    assert first[1] < second[0], "two trainers wrote at once"
    said = run.on_volume(f"/data/runs/{run.job}/attempts/1/output.log").read_text()
    assert "grpo: SIGTERM: waiting until the trainer has ended" in said
    assert "trainer: SIGTERM, saving" in said
    assert uids(run.pods()[:1]) != uids([head])
    let_end(run, ready, [0, STEPS])


def test_a_killed_worker_container_restarts_and_rejoins_the_head(
    run: Stack, ready: Installed, cluster: RealCluster, kube: Kube
) -> None:
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
    let_end(run, ready, [0])


def test_a_force_deleted_worker_is_replaced_while_the_driver_goes_on(run: Stack, ready: Installed, kube: Kube) -> None:
    """The operator makes another one, and the driver goes on."""
    before, worker = uids(run.pods()), run.pods()[-1]
    words, since = ["--namespace", run.namespace, "--grace-period=0", "--force"], time.time()
    kube.run("delete", "pod", worker["metadata"]["name"], *words)
    after = whole(run)
    assert before - uids(after) == uids([worker])
    report("three nodes are ready", since)
    (made,) = (pod["metadata"]["name"] for pod in after if not uids([pod]) <= before)
    event = f"Created worker Pod {run.namespace}/{made}"
    until(lambda: event in kube.events(run.namespace), event, seen=lambda: kube.events(run.namespace))
    let_end(run, ready, [0])


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


def test_a_run_on_a_full_volume_fails_and_a_later_attempt_resumes(
    ready: Installed, volumes: Path, tmp_path: Path
) -> None:
    """The trainer cannot write: the run fails with the words of the file system, and a later attempt goes on."""
    run = ready.with_run("volume-full")
    begin(run, ready, 1)
    fill(volumes)
    since = time.time()
    status = run.until_job("FAILED", 300)
    report("the run has failed", since)
    assert "No space left on device" in status["message"]
    causes, shown = explain(run, tmp_path)
    assert (causes[0], bool(shown["reason"])) == ("disk-full", True), causes
    (volumes / "filler").unlink()
    ready.trainer.set(seconds=1, steps=STEPS + 1)
    second = run.with_values(job={"attempt": 2})
    second.upgrade("grpo-job")
    second.until_job("SUCCEEDED", 240)
    check_starts(second, ready, [0, STEPS])
    second.uninstall("grpo-job")
