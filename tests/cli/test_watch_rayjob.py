"""grpo watch of a RayJob: a kubectl of a few lines stands in for the real one and for the pod."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.cli.watching import head_pod
from tests.cli.clusters import NAME, Cluster, Waits, stand_in, until
from tests.cli.test_terminal import environment
from tests.conftest import ROOT, Render
from tests.runlog import logs

TEXT = logs.nemo_rl(steps=3, reward=[0.25, 0.5, 0.75])
MIDDLE = TEXT.index("Step 2/3")
Run = Callable[..., tuple[int, str, str]]
# `grpo` in a process of its own, for which no answer of the cluster is late.
PATIENT = """
from grpo import deadline
deadline.PATIENCE = 600.0
import runpy
runpy.run_module("grpo.cli", run_name="__main__")
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render) -> Cluster:
    return stand_in(tmp_path, monkeypatch, render)


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
        thread.join(120)
    assert not failed


def numbers(out: str) -> list[str]:
    return re.findall(r"^step (\d+) ", out, re.MULTILINE)


def test_the_output_of_a_job_is_read_from_its_head_pod(grpo: Run, cluster: Cluster) -> None:
    cluster.write(TEXT)
    code, out, err = grpo()
    assert (code, numbers(out), err) == (0, ["1", "2", "3"], "3 steps, 0 findings\n")
    (execute,) = cluster.calls("exec")
    assert execute.startswith("exec ray-head --namespace rl --container ray-head -- sh -c ")
    assert "/data/runs/gemma3-gsm8k/attempts/1/output.log" in execute
    rayjob_asked, pods_asked = cluster.calls("get")
    assert rayjob_asked == f"get --raw /apis/ray.io/v1/namespaces/rl/rayjobs/{NAME}"
    assert pods_asked.endswith("/namespaces/rl/pods?labelSelector=ray.io%2Fcluster%3Dray%2Cray.io%2Fnode-type%3Dhead")


@pytest.mark.full
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


@pytest.mark.full
def test_a_watch_resumes_after_a_cluster_outage(
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


@pytest.mark.full
def test_a_retry_on_a_new_cluster_is_read_from_its_start(
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


def test_a_job_without_output_is_reported_without_waiting(grpo: Run, cluster: Cluster) -> None:
    cluster.state("", "Initializing")
    code, out, err = grpo()
    assert (code, out) == (2, "")
    assert err == f"RayJob {NAME} has no output yet: Initializing\n  fix: --follow waits for it\n"


def test_output_of_a_deleted_cluster_is_read_from_the_volume(grpo: Run, cluster: Cluster) -> None:
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


def test_output_lost_by_a_restarted_head_is_read_from_the_volume(grpo: Run, cluster: Cluster) -> None:
    cluster.state("SUCCEEDED", "Complete")
    cluster.write_on_volume(TEXT)
    assert numbers(grpo()[1]) == ["1", "2", "3"]


def test_a_job_that_failed_before_starting_is_reported_with_its_reason(grpo: Run, cluster: Cluster) -> None:
    cluster.state("", "Failed", message="the cluster was not ready in time\nmore")
    assert "is not there: Failed: the cluster was not ready in time\n" in grpo()[2]


NOT_FOUND = f'Error from server (NotFound): rayjobs.ray.io "{NAME}" not found\n'
FORBIDDEN = 'Error from server (Forbidden): pods "ray-head" is forbidden: User "u" cannot create resource "pods/exec"\n'


@pytest.mark.parametrize(("verb", "message"), [("get", NOT_FOUND), ("exec", FORBIDDEN)])
def test_a_kubectl_refusal_is_reported_in_one_message(grpo: Run, cluster: Cluster, verb: str, message: str) -> None:
    cluster.refuse(verb, f"warning: a plugin is old\n{message}")
    for words in ([], ["--follow"]):
        code, out, err = grpo(*words)
        assert (code, out) == (3, "")
        assert err.startswith(f"kubectl failed: {message}  fix: ")


def test_an_unreachable_api_server_is_reported_in_time(
    grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(monkeypatch, hang="get")
    code, out, err = grpo("--follow")
    assert (code, out) == (3, "")
    assert err.startswith("kubectl did not answer within 6 s")
    assert waits.clock.moment == 6


def test_a_slow_cluster_is_not_reported_as_silent(grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer comes within the time, all together do not."""
    waits = Waits(monkeypatch, late=4.0)
    cluster.write(TEXT)
    code, out, _ = grpo()
    assert (code, numbers(out)) == (0, ["1", "2", "3"])
    assert waits.clock.moment > 6


@pytest.mark.parametrize("words", [[], ["--follow"]])
def test_a_program_that_never_starts_in_the_pod_is_reported_in_time(
    grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    waits = Waits(monkeypatch, hang="exec")
    code, _, err = grpo(*words)
    assert code == 3
    assert err.startswith("the pod ray-head does not answer\n  fix: ")
    assert 6 <= waits.clock.moment < 8


def test_a_long_empty_output_is_not_taken_for_a_hung_pod(
    grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(monkeypatch)
    cluster.write("")

    def go_on() -> None:
        if waits.clock.moment > 6 and not waits.is_over:
            waits.is_over = True
            cluster.write(TEXT)

    waits.clock.meanwhile = go_on
    code, out, err = grpo("--follow")
    assert (code, numbers(out), waits.is_over) == (0, ["1", "2", "3"], True)
    assert "does not answer" not in err


def test_a_pod_that_stops_answering_ends_the_watch(
    grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(monkeypatch)
    monkeypatch.setattr(head_pod, "READ_SECONDS", 30.0)
    monkeypatch.setattr(head_pod, "_ANY", "printf .; exec sleep 60")
    code, _, err = grpo()
    assert (code, err.splitlines()[0]) == (3, "the pod ray-head does not answer")
    assert 36 < waits.clock.moment < 38


def test_missing_kubectl_is_reported(grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_interrupt_ends_the_watch_quietly_and_leaves_no_kubectl(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise kubectl ends by itself when nobody reads its output.
    monkeypatch.setenv("STAYS", "1")
    cluster.write(TEXT[:MIDDLE])
    command = [sys.executable, "-c", PATIENT, "watch", NAME, "-n", "rl", "--follow"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A program in the background of a shell inherits that it ignores the signal, also in CI.
    restore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(command, text=True, env=environment(), cwd=ROOT, **pipes, **restore) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout.readline().startswith("step 1 ")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
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
