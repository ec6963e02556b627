"""What the guard keeps of a trainer that ends by itself: real launches whose trainer fails."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import thin

from .harness import Site, until
from .test_guard import TRAINER, begin, evidence, guard, moments, nothing_is_left, start, status, steps

LIMIT = 300 << 20


@pytest.mark.parametrize(
    ("how", "code", "why"),
    thin(
        [
            ("7", 7, "exit code 7"),
            ("SIGABRT", 134, "exit code 134 (SIGABRT)"),
            ("error", 1, "exit code 1: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"),
        ],
        3,
    ),
)
def test_the_last_line_says_why_a_trainer_ended(site: Site, how: str, code: int, why: str) -> None:
    launch = start(site, "--crash", f"step@3={how}")
    assert launch.wait() == code, launch.output
    (folder,) = evidence(site)
    assert launch.last == f"grpo: guard: the trainer ended with {why}; evidence: {folder}"
    assert (folder / "reason.txt").read_text() == f"the trainer ended with {why}\n"
    assert "Step 3/4" in (folder / "output.txt").read_text()
    assert (folder / "complete.txt").exists()
    found = status(site)
    assert (found["state"], found["exitCode"], found["reason"]) == ("ended", code, f"the trainer ended with {why}")
    assert [finding["sign"] for finding in found["findings"]] == ["failed"]
    nothing_is_left(site)


@pytest.mark.full
def test_a_retry_follows_the_evidence(site: Site) -> None:
    launch = start(site, "--crash", "step@3=SIGKILL", retries=1)
    assert launch.wait() == 0, launch.output
    assert steps(site) == [1, 2, 3, 4]
    assert len(evidence(site)) == 1
    assert status(site)["reason"] == ""
    site.never_two()


@pytest.mark.full
def test_evidence_of_a_failure_delays_a_retry_by_its_time_only(site: Site) -> None:
    slow = site.tmp / "bin" / "nvidia-smi"
    slow.write_text("#!/bin/sh\nsleep 120\n")
    slow.chmod(0o755)
    launch = start(site, "--crash", "step@3=5", retries=1, settings=guard(evidenceSeconds=8))
    assert launch.wait() == 0, launch.output
    assert "the evidence is incomplete after 8 s (job.guard.evidenceSeconds)" in launch.output
    again = moments(site, "start")[1]
    # The program that hangs takes much longer.
    assert again - max(moment for moment in moments(site, "alive") if moment < again) < 60
    assert "step 3" in (evidence(site)[0] / "output.txt").read_text().lower()
    nothing_is_left(site)


def test_a_stop_does_not_wait_for_evidence(site: Site) -> None:
    slow = site.tmp / "bin" / "nvidia-smi"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    slow.chmod(0o755)
    launch = start(site, "--crash", "step@2=5", retries=1, settings=guard(evidenceSeconds=600))
    launch.says("collecting evidence")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert len(moments(site, "start")) == 1
    nothing_is_left(site)


def test_a_trainer_that_is_stopped_from_outside_leaves_no_evidence(site: Site) -> None:
    launch = start(site, "--stall", "step@2")
    until(lambda: moments(site, "stalls"), "the second step")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert evidence(site) == []


@pytest.mark.full
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_trainer_that_fails_while_evidence_of_its_stall_is_collected_has_stalled(site: Site, restarts: int) -> None:
    """NeMo RL fails by itself a minute after a worker has stopped to answer: it asks Ray for its memory."""
    slow = site.tmp / "bin" / "nvidia-smi"
    slow.write_text("#!/bin/sh\nsleep 10\n")
    slow.chmod(0o755)
    options = ("--stall", "step@3", "--hang", 8, "--crash", "step@3=error")
    launch = start(site, *options, settings=guard("step", restarts=restarts))
    assert launch.wait() == (0 if restarts else 1), launch.output
    (folder,) = evidence(site)
    assert "the trainer has stalled: phase step after step 2" in (folder / "reason.txt").read_text()
    assert (folder / "complete.txt").exists()
    assert [finding["sign"] for finding in status(site)["findings"]] == ["stalled"]
    assert len(moments(site, "start")) == 1 + restarts
    nothing_is_left(site)


@pytest.mark.full
def test_a_sign_in_the_last_output_of_a_failure_ends_the_attempt(site: Site) -> None:
    settings = guard(stopOn={"not-a-number": {}})
    launch = start(site, "--loss", "nan", "--bad-from", 3, "--crash", "step@4=9", settings=settings, retries=1)
    assert launch.wait() == 1, launch.output
    assert "step 3 shows the sign not-a-number (job.guard.stopOn); evidence: " in launch.last
    assert len(moments(site, "start")) == 1


def test_the_last_lines_of_the_workers_and_the_memory_are_kept(site: Site) -> None:
    logs = site.tmp / "ray/session_latest/logs"
    logs.mkdir(parents=True)
    (logs / "worker-1a-01000000-77.out").write_text("many lines\n" * 100_000 + "the last words\n")
    (logs / "worker-1a-01000000-77.err").write_text("")
    (logs / "raylet.out").write_text("a worker died\n" + "[state-dump] 24 total\n" * 10_000)
    # As if they were written while the trainer runs.
    for path in logs.iterdir():
        os.utime(path, (time.time() + 60,) * 2)
    old = logs / "worker-0f-00000000-11.err"
    old.write_text("of another run\n")
    os.utime(old, (1, 1))
    site.environment["RAY_TMPDIR"] = str(site.tmp)
    launch = start(site, "--crash", "step@2=5")
    assert launch.wait() == 5, launch.output
    (pod,) = [path for path in evidence(site)[0].iterdir() if path.is_dir()]
    text = (pod / "worker-logs.txt").read_text()
    assert "== worker-1a-01000000-77.out\n" in text
    assert "the last words\n" in text
    assert "a worker died" in text
    assert "another run" not in text
    assert "state-dump" not in text
    assert ".err" not in text
    assert len(text) < 100_000
    assert "oom_kill" in (pod / "memory.txt").read_text()


@pytest.fixture
def small_pod() -> Iterator[Path]:
    """Make a control group with little memory, as a pod has one."""
    for base, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = Path(base) / f"grpo-test-{os.getpid()}"
        try:
            folder.mkdir()
            (folder / file).write_text(str(LIMIT))
            break
        except OSError:
            continue
    else:
        pytest.skip("this user cannot make a control group")
    yield folder
    until(lambda: not (folder / "cgroup.procs").read_text(), "the end of the group's processes")
    folder.rmdir()


@pytest.mark.full
def test_a_trainer_that_the_kernel_kills_for_its_memory(site: Site, small_pod: Path) -> None:
    body = f"echo $$ > {small_pod}/cgroup.procs\n"
    words = ["python3", str(TRAINER), str(site.stamps), str(site.directory / "checkpoints"), "--crash", "step@2=memory"]
    launch = begin(site, command=words, guard=guard(), body=body)
    assert launch.wait() == 128 + signal.SIGKILL, launch.output
    last = launch.last
    why = "exit code 137 (SIGKILL): out of memory: the kernel killed 1 process of this pod, whose limit is 0.3 GiB"
    assert f"the trainer ended with {why}; evidence: " in last
    # A task without a guard says it too.
    launch = site.start_plan(site.plan(2, command=[*words[:2], str(site.tmp / "other"), *words[3:]]), body=body)
    assert launch.wait() == 128 + signal.SIGKILL, launch.output
    assert launch.last == f"grpo: the trainer ended with {why}"


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ("Traceback (most recent call last):\n  File x\nValueError: bad\nbye\n", "ValueError: bad"),
        ("\x1b[36m(A pid=1)\x1b[0m Traceback (most recent call last):\n(A pid=1) x.AError: 2\n", "x.AError: 2"),
        (
            "Traceback (most recent call last):\nray.exceptions.RayTaskError(OutOfMemoryError): ray::A.f() (pid=1)\n"
            "    return self.f()\ntorch.OutOfMemoryError: CUDA out of memory.\n",
            "torch.OutOfMemoryError: CUDA out of memory.",
        ),
        ("Traceback (most recent call last):\n  File x\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        (
            "Traceback (most recent call last):\n  File x\na._RpcError: <RPC that terminated with:\n\tdetails\n>\n"
            "Exception ignored in: <function __del__>\nTraceback (most recent call last):\n  File y\nXError: no\n",
            "a._RpcError: <RPC that terminated with:",
        ),
        # Half a token is hidden nowhere.
        (f"Traceback (most recent call last):\nXError: {'x' * 280} hf_{'Ab1' * 12}\n", f"XError: {'x' * 280}"),
        ("ValueError: printed by a program that goes on\n", ""),
        ("", ""),
    ],
)
def test_the_last_error_is_that_of_the_last_traceback(jobs: Any, output: str, error: str) -> None:
    assert jobs("last_error").last_error(output) == error


def test_a_pod_with_control_groups_of_version_2(jobs: Any, tmp_path: Path) -> None:
    """The format of memory.events; a machine has one version only."""
    events, limit = tmp_path / "memory.events", tmp_path / "memory.max"
    text = "low 0\nhigh 0\nmax 9\noom 2\noom_kill {}\noom_group_kill 0\n"
    kills = jobs("exit_cause").MemoryKills()
    kills.files, kills.before = (events, limit), 1
    for count, size, said in (
        (1, "max", "exit code 137 (SIGKILL)"),
        (3, "max", "exit code 137 (SIGKILL): out of memory: the kernel killed 2 processes of this pod"),
        (2, str(64 << 30), ": out of memory: the kernel killed 1 process of this pod, whose limit is 64.0 GiB"),
    ):
        events.write_text(text.format(count))
        limit.write_text(size)
        assert kills.describe(137).endswith(said)
    assert kills.describe(0) == "exit code 0"
    assert kills.describe(255).startswith("exit code 255: out of memory")
