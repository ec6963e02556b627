"""grpo watch of a RayJob: a kubectl of a few lines stands in for the real one and for the pod."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from postrender.cli import main as cli
from postrender.cli.watching import head_pod
from postrender.runlog import following
from tests.cli.test_terminal import environment
from tests.conftest import ROOT, Object, Render, by_kind
from tests.runlog import logs

TEXT = logs.nemo_rl(steps=3, reward=[0.25, 0.5, 0.75])
MIDDLE = TEXT.index("Step 2/3")
NAME = "gemma3-gsm8k-1"
# What kubectl would ask the API server for, and what it would start in the pod.
KUBECTL = """\
#!/bin/sh
echo "$*" >> "$CLUSTER/calls"
[ -z "$SECONDS_AWAY" ] || exec sleep "$SECONDS_AWAY"
if [ -s "$CLUSTER/refuses-$1" ]; then cat "$CLUSTER/refuses-$1" >&2; exit 1; fi
case $1 in
  get) case $3 in
         *rayjobs/*) cat "$CLUSTER/rayjob.json" ;;
         *pods*) cat "$CLUSTER/pods.json" ;;
       esac ;;
  exec) while [ "$1" != -- ]; do shift; done; shift
        for word; do shift; case $word in /*) word="$CLUSTER$word" ;; esac; set -- "$@" "$word"; done
        "$@"; code=$?
        [ $code = 0 ] || { echo "command terminated with exit code $code" >&2; exit $code; } ;;
esac
"""


class Cluster:
    """The folder of the stand-in: objects as JSON, and the files of the pod."""

    def __init__(self, folder: Path, rendered: Object) -> None:
        self.folder, self.rayjob = folder, rendered
        self.state("RUNNING")
        self.head()

    def state(self, job: str, deployed: str = "Running", job_id: str = "job-1", **status: str) -> None:
        found = {"jobStatus": job, "jobDeploymentStatus": deployed, "jobId": job_id, "rayClusterName": "ray", **status}
        self.put("rayjob.json", {**self.rayjob, "status": found})

    def head(self, *, uid: str = "a", phase: str = "Running") -> None:
        pod = {
            "metadata": {"name": "ray-head", "uid": uid},
            "spec": {"containers": [{"name": "ray-head"}]},
            "status": {"phase": phase, "containerStatuses": [{"restartCount": 0}]},
        }
        self.put("pods.json", {"items": [pod]})

    def no_head(self) -> None:
        self.put("pods.json", {"items": []})

    def put(self, name: str, content: Any) -> None:
        """Replace a file at once: the stand-in may be reading it."""
        draft = self.folder / "draft"
        draft.write_text(json.dumps(content))
        draft.rename(self.folder / name)

    def refuse(self, verb: str, message: str) -> None:
        (self.folder / f"refuses-{verb}").write_text(message)

    def allow(self, verb: str) -> None:
        (self.folder / f"refuses-{verb}").unlink()

    def write(self, text: str, job_id: str = "job-1") -> None:
        self._append(f"tmp/ray/session_latest/logs/job-driver-{job_id}.log", text)

    def write_on_volume(self, text: str) -> None:
        self._append("data/runs/gemma3-gsm8k/attempts/1/output.log", text)

    def _append(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    def calls(self, verb: str) -> list[str]:
        path = self.folder / "calls"
        return [line for line in path.read_text().splitlines() if line.startswith(verb)] if path.exists() else []


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render) -> Cluster:
    rendered = by_kind(render("grpo-job"), "RayJob")
    assert rendered["metadata"]["name"] == NAME
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").write_text(KUBECTL)
    (tmp_path / "bin/kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("CLUSTER", str(tmp_path))
    monkeypatch.delenv("SECONDS_AWAY", raising=False)
    monkeypatch.setattr(head_pod, "READ_SECONDS", 1.0)
    monkeypatch.setattr(following, "PAUSE_SECONDS", 0.2)
    return Cluster(tmp_path, rendered)


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["watch", NAME, "--namespace", "rl", *words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Run something in a thread, and fail if it fails."""
    failed: list[BaseException] = []
    threads: list[threading.Thread] = []

    def start(work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)
                # The watch would wait for ever.
                os.kill(os.getpid(), signal.SIGINT)

        threads.append(threading.Thread(target=guarded))
        threads[0].start()

    yield start
    for thread in threads:
        thread.join(60)
    assert not failed


def numbers(out: str) -> list[str]:
    return re.findall(r"^step (\d+) ", out, re.MULTILINE)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_output_of_a_job_is_read_in_its_head_pod(grpo: Run, cluster: Cluster) -> None:
    cluster.write(TEXT)
    code, out, err = grpo()
    assert (code, numbers(out), err) == (0, ["1", "2", "3"], "3 steps, 0 findings\n")
    (execute,) = cluster.calls("exec")
    assert execute.startswith("exec ray-head --namespace rl --container ray-head -- sh -c ")
    assert "/data/runs/gemma3-gsm8k/attempts/1/output.log" in execute
    rayjob_asked, pods_asked = cluster.calls("get")
    assert rayjob_asked == f"get --raw /apis/ray.io/v1/namespaces/rl/rayjobs/{NAME}"
    assert pods_asked.endswith("/namespaces/rl/pods?labelSelector=ray.io%2Fcluster%3Dray%2Cray.io%2Fnode-type%3Dhead")


def test_a_job_is_followed_from_before_its_start_to_its_end(
    grpo: Run, cluster: Cluster, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    cluster.state("", "Initializing")
    # A running job has no end line of its own: the RayJob says it.
    text = TEXT.removesuffix(logs.ENDED)

    def run() -> None:
        until(lambda: len(cluster.calls("get")) > 1)
        cluster.write(text[:MIDDLE])
        cluster.state("RUNNING")
        # Each program in the pod ends after a second, and the next one goes on where it was.
        until(lambda: len(cluster.calls("exec")) > 2)
        cluster.write(text[MIDDLE:])
        cluster.state("SUCCEEDED", "Complete")

    meanwhile(run)
    code, out, err = grpo("--follow")
    assert (code, numbers(out)) == (0, ["1", "2", "3"])
    waits = f"grpo: RayJob {NAME} has no output yet: Initializing\n"
    assert err == f"{waits}grpo: RayJob {NAME} has ended: Complete: SUCCEEDED\n3 steps, 0 findings\n"
    starts = [int(each) for call in cluster.calls("exec") for each in re.findall(r"tail -c \+(\d+)", call)]
    assert starts == sorted(starts)
    assert starts[0] == 1


def test_a_watch_goes_on_after_a_cluster_that_was_away(
    grpo: Run, cluster: Cluster, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    cluster.write(TEXT[:MIDDLE])

    def run() -> None:
        until(lambda: cluster.calls("exec"))
        cluster.refuse("get", "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n")
        calls = len(cluster.calls("get"))
        until(lambda: len(cluster.calls("get")) > calls + 2)
        cluster.write(TEXT[MIDDLE:])
        cluster.allow("get")

    meanwhile(run)
    code, out, err = grpo("--follow")
    assert (code, numbers(out)) == (0, ["1", "2", "3"])
    away = "grpo: kubectl failed: Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout; trying again\n"
    assert err == f"{away}3 steps, 0 findings\n"


def test_a_retry_has_another_cluster_and_is_read_from_its_start(
    grpo: Run, cluster: Cluster, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    cluster.write(TEXT[:MIDDLE])

    def run() -> None:
        until(lambda: cluster.calls("exec"))
        cluster.no_head()
        cluster.state("", "Retrying")
        cluster.write(logs.nemo_rl(steps=2, start=2), "job-2")
        calls = len(cluster.calls("get"))
        until(lambda: len(cluster.calls("get")) > calls + 3)
        cluster.head(uid="b")
        cluster.state("SUCCEEDED", "Complete", "job-2")

    meanwhile(run)
    code, out, err = grpo("--follow")
    assert (code, numbers(out)) == (0, ["1", "2", "3"])
    assert err.endswith("has no output yet: Retrying\n3 steps, 0 findings\n")


def test_a_job_without_output_is_not_waited_for(grpo: Run, cluster: Cluster) -> None:
    cluster.state("", "Initializing")
    code, out, err = grpo()
    assert (code, out) == (2, "")
    assert err == f"RayJob {NAME} has no output yet: Initializing\n  fix: --follow waits for it\n"


def test_output_that_is_gone_with_its_cluster_is_on_the_volume(grpo: Run, cluster: Cluster) -> None:
    cluster.state("SUCCEEDED", "Complete")
    cluster.no_head()
    code, out, err = grpo()
    assert (code, out) == (2, "")
    assert err.startswith(f"RayJob {NAME} has ended, and its output is not there: Complete: SUCCEEDED\n  fix: read ")
    assert "/data/runs/gemma3-gsm8k/attempts/1 on the volume of the run" in err
    cluster.head()
    cluster.write_on_volume(TEXT)
    code, out, err = grpo("--cluster", "other")
    assert (code, numbers(out)) == (0, ["1", "2", "3"])
    assert "labelSelector=ray.io%2Fcluster%3Dother%2C" in cluster.calls("get")[-1]


def test_the_volume_has_what_a_restarted_head_has_lost(grpo: Run, cluster: Cluster) -> None:
    cluster.state("SUCCEEDED", "Complete")
    cluster.write_on_volume(TEXT)
    assert numbers(grpo()[1]) == ["1", "2", "3"]


def test_a_job_that_failed_before_its_start_says_why(grpo: Run, cluster: Cluster) -> None:
    cluster.state("", "Failed", message="the cluster was not ready in time\nmore")
    assert "is not there: Failed: the cluster was not ready in time\n" in grpo()[2]


NOT_FOUND = f'Error from server (NotFound): rayjobs.ray.io "{NAME}" not found\n'
FORBIDDEN = 'Error from server (Forbidden): pods "ray-head" is forbidden: User "u" cannot create resource "pods/exec"\n'


@pytest.mark.parametrize(("verb", "message"), [("get", NOT_FOUND), ("exec", FORBIDDEN)])
def test_a_refusal_is_a_sentence(grpo: Run, cluster: Cluster, verb: str, message: str) -> None:
    cluster.refuse(verb, f"warning: a plugin is old\n{message}")
    for words in ([], ["--follow"]):
        code, out, err = grpo(*words)
        assert (code, out) == (3, "")
        assert err.startswith(f"kubectl failed: {message}  fix: ")


def test_an_api_server_that_is_away_is_said_in_time(
    grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert head_pod.TIMEOUT_SECONDS < 10
    monkeypatch.setattr(head_pod, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setenv("SECONDS_AWAY", "60")
    began = time.monotonic()
    code, out, err = grpo("--follow")
    assert (code, out) == (3, "")
    assert err.startswith("kubectl did not answer within ")
    assert time.monotonic() - began < 5


def test_a_pod_that_does_not_answer_ends_the_watch_of_what_is_there(
    grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_pod, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(head_pod, "_ANY", "exec sleep 60")
    code, _, err = grpo()
    assert (code, err.splitlines()[0]) == (3, "the pod ray-head does not answer")


def test_without_kubectl_it_is_named(grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cluster.folder))
    code, _, err = grpo()
    assert (code, err.splitlines()[0]) == (3, "cannot run kubectl: No such file or directory")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "--cluster", "ray"], "grpo watch: --cluster is given without --namespace"),
        (["A_b", "--namespace", "rl"], "grpo watch: the RayJob is 'A_b', expected lower-case letters"),
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch", *words]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_an_interrupt_ends_it_quietly_and_leaves_no_kubectl(cluster: Cluster) -> None:
    cluster.write(TEXT[:MIDDLE])
    command = [sys.executable, "-m", "postrender.cli", "watch", NAME, "-n", "rl", "--follow"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A program in the background of a shell inherits that it ignores the signal, also in CI.
    restore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(command, text=True, env=environment(), cwd=ROOT, **pipes, **restore) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout.readline().startswith("step 1 ")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, "", "")
    held = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _says(path, str(cluster.folder / "bin/kubectl"))]
    assert held == []


def _says(path: Path, word: str) -> bool:
    try:
        return os.fsencode(word) in path.read_bytes()
    except OSError:
        return False
