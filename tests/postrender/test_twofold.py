"""Two processes find what one finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from postrender import cli, twofold
from postrender.documents import read
from postrender.errors import InputError
from postrender.progress import Progress
from tests.conftest import ROOT

needs_two = pytest.mark.skipif(not twofold._can_help(), reason="the system has one processor, or cannot fork")
JOBS = 40


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the smallest stream be worth a second process."""
    monkeypatch.setattr(twofold, "LARGE", 0)


def run(work: twofold.Work, *, alone: bool = False) -> list[object]:
    return twofold.run(work, JOBS, Progress("jobs"), alone=alone)


@needs_two
def test_the_results_are_in_order_whoever_had_them() -> None:
    # A job takes long enough for the second process to get some.
    found = run(lambda job: (job, os.getpid(), sum(range(200_000))))
    assert [job for job, *_ in found] == list(range(JOBS))
    assert len({pid for _, pid, _ in found}) == 2


def test_alone_there_is_one_process() -> None:
    assert run(lambda _: os.getpid(), alone=True) == [os.getpid()] * JOBS


@needs_two
@pytest.mark.parametrize("how", ["dies", "raises", "brings what is no plain data"])
def test_what_the_second_process_does_not_bring_is_done_again(how: str) -> None:
    first = os.getpid()

    def work(job: int) -> object:
        if os.getpid() == first:
            return sum(range(200_000)) and job
        if how == "dies":
            os.kill(os.getpid(), 9)
        if how == "raises":
            raise ValueError
        return object()

    assert run(work) == list(range(JOBS))


@needs_two
def test_where_no_process_can_be_started_one_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    assert run(lambda job: job) == list(range(JOBS))


@needs_two
def test_an_error_is_raised_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: started.append(fork()) or started[0])
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def work(job: int) -> int:
        raise ValueError(job)

    with pytest.raises(ValueError, match=r"\d"):
        run(work)
    assert not before or len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(started[0], os.WNOHANG)


@needs_two
def test_a_caller_that_ignores_the_ends_of_children_changes_nothing() -> None:
    code = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); from tests.postrender.test_twofold import run"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(run(lambda job: job) == [*range(40)])"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def samples() -> list[bytes]:
    """Return the bad manifests that the tests of rules have."""
    found = []
    for path in sorted((ROOT / "tests" / "rules").rglob("bad*.yaml")):
        try:
            read({str(path): path.read_bytes()})
        except InputError:
            continue
        found.append(path.read_bytes())
    return found


@needs_two
def test_a_check_by_two_says_what_a_check_by_one_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All samples together, more than one part, with what is wrong with them, what is not plain and what is empty."""
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "z.yaml").write_text("---\n# nothing\n---\na: &a b\nkind: C\nc: *a\n", encoding="utf-8")
    for number, sample in enumerate(samples()):
        (folder / f"{number}.yaml").write_bytes(sample)
    said = []
    for large in (10**9, 0):
        monkeypatch.setattr(twofold, "LARGE", large)
        monkeypatch.setattr("postrender.stream._PART", 500)
        code = cli.main(["check", str(folder)])
        said.append((code, *capsys.readouterr()))
    assert said[0] == said[1]
    assert said[0][1].count("\n") > 50


@needs_two
@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"kind: A\n---\nb: [\n---\nkind: \xff\n", "f.yaml:5:7: this is not UTF-8"),
        (b"kind: A\n---\nb: [\n---\nc: [\n", "f.yaml:4"),
        (b"kind: A\n---\nkind: B\n\0\n", "f.yaml:4:1: this is not a text file"),
        (b"kind: A\n---\nkind: B\n---\nc: d\n", "f.yaml:5:1: expected a Kubernetes object"),
    ],
)
def test_bad_input_has_the_place_that_it_has_for_one(
    data: bytes, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(data)
    code = cli.main(["check", str(file)])
    by_two = capsys.readouterr()
    monkeypatch.setattr(twofold, "LARGE", 10**9)
    assert (code, by_two) == (cli.main(["check", str(file)]), capsys.readouterr())
    assert said in by_two.err
