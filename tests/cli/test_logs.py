"""`grpo logs`: a kubectl of a few lines stands in for the real one; tests/e2e/node has pods."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo import deadline
from grpo.cli import main as cli
from grpo.cli.watching import printing
from tests.cli.clusters import Cluster, Waits, stand_in
from tests.conftest import Render, stack_files
from tests.played import Clock

TOKEN = "hf_" + "aB3" * 8
FILES = [word for path in stack_files() for word in ("-f", str(path))]
TEXT = "".join(f"line {number}\n" for number in range(1, 21))

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render) -> Cluster:
    return stand_in(tmp_path, monkeypatch, render)


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["logs", *FILES, *words])
        return code, *capsys.readouterr()

    return run


def test_logs_prints_the_output_of_the_driver(grpo: Run, cluster: Cluster) -> None:
    cluster.write(TEXT)
    assert grpo("-n", "rl") == (0, TEXT, "")
    assert "/namespaces/rl/" in cluster.calls("get")[0]


def test_the_namespace_defaults_to_that_of_the_context(grpo: Run, cluster: Cluster) -> None:
    cluster.write(TEXT)
    (cluster.folder / "namespace").write_text("team")
    assert grpo() == (0, TEXT, "")
    assert "/namespaces/team/" in cluster.calls("get")[0]


def test_tail_prints_the_last_lines(grpo: Run, cluster: Cluster) -> None:
    cluster.write(TEXT)
    assert grpo("-n", "rl", "--tail", "2") == (0, "line 19\nline 20\n", "")
    assert grpo("-n", "rl", "--tail", "50") == (0, TEXT, "")


@pytest.mark.full
def test_follow_continues_after_the_last_lines(grpo: Run, cluster: Cluster) -> None:
    """Across programs in the pod that end, and to the end of the job: nothing is lost, nothing comes twice.

    The second program in the pod begins after the last line there was.
    """
    cluster.write(TEXT)
    work = subprocess.Popen(
        [
            *(
                "sh",
                "-c",
                'until [ "$(grep -c ^exec "$4")" -ge 2 ]; do sleep 0.1; done; for n in 21 22 23; do sleep 0.9; '
                'echo "line $n" >> "$1"; done; mv "$2" "$3"',
                "sh",
            ),
            str(cluster.folder / "tmp/ray/session_latest/logs/job-driver-job-1.log"),
            *(str(cluster.folder / name) for name in ("ended.json", "rayjob.json", "calls")),
        ]
    )
    cluster.state("SUCCEEDED", "Complete")
    (cluster.folder / "rayjob.json").rename(cluster.folder / "ended.json")
    cluster.state("RUNNING")
    code, out, err = grpo("-n", "rl", "--tail", "1", "--follow")
    work.wait()
    assert (code, out) == (0, "".join(f"line {number}\n" for number in range(20, 24)))
    assert err == "grpo: RayJob gemma3-gsm8k-1 has ended: Complete: SUCCEEDED\n"


def test_an_older_attempt_is_read_from_the_volume(grpo: Run, cluster: Cluster) -> None:
    """Its RayJob went when the attempt was raised."""
    cluster.no_job()
    cluster.write_on_volume("the first attempt\n", 3)
    assert grpo("-n", "rl", "--attempt", "3") == (0, "the first attempt\n", "")
    (pods,) = cluster.calls("get")[1:]
    assert pods.endswith("labelSelector=ray.io%2Fcluster%3Dgemma-ray%2Cray.io%2Fnode-type%3Dhead")
    assert grpo("-n", "rl", "--attempt", "3", "--follow")[:2] == (0, "the first attempt\n")


def test_an_attempt_without_output_is_reported(grpo: Run, cluster: Cluster) -> None:
    cluster.no_job()
    code, out, err = grpo("-n", "rl", "--attempt", "4")
    assert (code, out) == (3, "")
    assert err.startswith("the pod ray-head cannot read /data/runs/gemma3-gsm8k/attempts/4/output.log\n  fix: ")
    cluster.no_head()
    code, _, err = grpo("-n", "rl", "--attempt", "4")
    assert code == 2
    assert "there is no such RayJob, and no running pod has the labels ray.io/cluster=gemma-ray," in err
    assert "--cluster NAME" in err


def test_no_secret_is_printed(grpo: Run, cluster: Cluster) -> None:
    cluster.write(f"loading with token={TOKEN}\nWANDB_API_KEY={'0123456789' * 4}\n{TOKEN}")
    code, out, _ = grpo("-n", "rl")
    assert code == 0
    assert TOKEN not in out
    assert "0123456789" not in out
    assert out.count("\n") == 2


@pytest.mark.parametrize(("verb", "words"), [("get", []), ("exec", []), ("exec", ["--tail", "2"])])
def test_a_hung_cluster_is_reported_in_time(
    grpo: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, verb: str, words: list[str]
) -> None:
    waits = Waits(monkeypatch, hang=verb)
    cluster.write(TEXT)
    code, out, err = grpo("-n", "rl", *words)
    assert (code, out) == (3, "")
    assert "not answer" in err.splitlines()[0]
    assert 6 <= waits.clock.moment < 8


def test_rendering_time_is_deducted_from_the_cluster_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(deadline, "time", clock)
    assert [deadline.after(began).seconds for began in (0.0, -2.0, -60.0)] == [6.0, 5.0, 3.0]
    limit = deadline.after(0.0)
    clock.sleep(2)
    assert limit.left == 4
    clock.sleep(60)
    assert limit.left == 0
    limit.renew()
    assert limit.left == 6


@pytest.mark.parametrize("size", [1, 5, 17])
def test_a_secret_split_across_two_chunks_is_hidden(size: int) -> None:
    text = f"a {TOKEN} b\r50%|\r100%|\nc {TOKEN}"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert "".join(printing.masked(pieces)) == "a <huggingface token> b\r50%|\r100%|\nc <huggingface token>"


def test_a_private_key_split_across_chunks_is_hidden() -> None:
    line = "aB3/" * 16
    key = f"[pod/a/ray] -----BEGIN PRIVATE KEY-----\n[pod/a/ray] {line}\n[pod/a/ray] Zm9v==\nstep 1\n"
    shown = "".join(printing.masked(key[at : at + 7] for at in range(0, len(key), 7)))
    hidden = "[pod/a/ray] <hidden>\n"
    assert shown == f"[pod/a/ray] -----BEGIN PRIVATE KEY-----\n{hidden}{hidden}step 1\n"


def test_a_line_is_printed_only_once_it_is_complete() -> None:
    def pieces() -> Iterator[str]:
        yield "one\ntw"
        yield ""
        yield "o\n"

    assert list(printing.masked(pieces())) == ["one\n", "two\n", ""]


def test_the_printed_command_gives_the_same_output(grpo: Run, cluster: Cluster) -> None:
    cluster.write_on_volume(TEXT)
    (cluster.folder / "pod-names").write_text("pod/ray-head\n")
    code, line, err = grpo("-n", "rl", "--tail", "3", "--show-commands")
    assert (code, err) == (0, "")
    assert cluster.calls("exec") == []
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert done.stdout == "line 18\nline 19\nline 20\n"
    assert shlex.split(line)[:4] == ["kubectl", "exec", "--stdin", "--namespace"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["logs"], "grpo logs: no values file is given"),
        (["logs", *FILES, "--attempt", "0"], "grpo logs: "),
        (["logs", *FILES, "--tail", "x"], "grpo logs: "),
        (["logs", *FILES, "-n", "A_b"], "grpo logs: --namespace is 'A_b'"),
    ],
)
def test_wrong_command_lines_are_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert capsys.readouterr().err.startswith(message)
