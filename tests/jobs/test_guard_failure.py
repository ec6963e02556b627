"""What the guard keeps of a trainer that ends by itself; on a simulated machine."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from .simulation.machine import Machine
from .test_guard import evidence, guard, moments, nothing_is_left, start, status, steps


@pytest.mark.parametrize(
    ("how", "code", "why"),
    [
        ("7", 7, "exit code 7"),
        ("SIGABRT", 134, "exit code 134 (SIGABRT)"),
        ("error", 1, "exit code 1: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_the_last_line_says_why_the_trainer_ended(machine: Machine, how: str, code: int, why: str) -> None:
    launch = start(machine, "--crash", f"step@3={how}")
    assert launch.wait() == code, launch.output
    (folder,) = evidence(machine)
    assert launch.last == f"grpo: guard: the trainer ended with {why}; evidence: {folder}"
    assert (folder / "reason.txt").read_text() == f"the trainer ended with {why}\n"
    assert "Step 3/4" in (folder / "output.txt").read_text()
    assert (folder / "complete.txt").exists()
    found = status(machine)
    assert (found["state"], found["exitCode"], found["reason"]) == ("ended", code, f"the trainer ended with {why}")
    assert [finding["sign"] for finding in found["findings"]] == ["failed"]
    nothing_is_left(machine)


def test_a_failed_trainer_is_retried_after_its_evidence_is_collected(machine: Machine) -> None:
    launch = start(machine, "--crash", "step@3=SIGKILL", retries=1)
    assert launch.wait() == 0, launch.output
    assert steps(machine) == [1, 2, 3, 4]
    assert len(evidence(machine)) == 1
    assert status(machine)["reason"] == ""
    machine.never_two()


def test_failure_evidence_delays_a_retry_only_by_its_time_limit(machine: Machine) -> None:
    machine.evidence_seconds = 120
    launch = start(machine, "--crash", "step@3=5", retries=1, settings=guard(evidenceSeconds=8))
    assert launch.wait() == 0, launch.output
    assert "the evidence is incomplete after 8 s (job.guard.evidenceSeconds)" in launch.output
    again = moments(machine, "start")[1]
    assert again - max(moment for moment in moments(machine, "alive") if moment < again) == pytest.approx(8, abs=1)
    assert "step 3" in (evidence(machine)[0] / "output.txt").read_text().lower()
    nothing_is_left(machine)


def test_a_stop_does_not_wait_for_evidence(machine: Machine) -> None:
    machine.evidence_seconds = 600
    launch = start(machine, "--crash", "step@2=5", retries=1, settings=guard(evidenceSeconds=600))
    launch.says("collecting evidence")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert len(moments(machine, "start")) == 1
    nothing_is_left(machine)


def test_an_externally_stopped_trainer_leaves_no_evidence(machine: Machine) -> None:
    launch = start(machine, "--stall", "step@2")
    machine.until(lambda: moments(machine, "stalls"), "the second step")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert evidence(machine) == []


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_trainer_that_fails_while_stall_evidence_is_collected_counts_as_stalled(
    machine: Machine, restarts: int
) -> None:
    """NeMo RL fails by itself a minute after a worker has stopped to answer: it asks Ray for its memory."""
    machine.evidence_seconds = 10
    options = ("--stall", "step@3", "--hang", 8, "--crash", "step@3=error")
    launch = start(machine, *options, settings=guard("step", restarts=restarts))
    assert launch.wait() == (0 if restarts else 1), launch.output
    (folder,) = evidence(machine)
    assert "the trainer has stalled: phase step after step 2" in (folder / "reason.txt").read_text()
    assert (folder / "complete.txt").exists()
    assert [finding["sign"] for finding in status(machine)["findings"]] == ["stalled"]
    assert len(moments(machine, "start")) == 1 + restarts
    nothing_is_left(machine)


def test_a_sign_in_a_failed_trainers_last_output_ends_the_attempt(machine: Machine) -> None:
    settings = guard(stopOn={"not-a-number": {}})
    launch = start(machine, "--loss", "nan", "--bad-from", 3, "--crash", "step@4=9", settings=settings, retries=1)
    assert launch.wait() == 1, launch.output
    assert "step 3 shows the sign not-a-number (job.guard.stopOn); evidence: " in launch.last
    assert len(moments(machine, "start")) == 1


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
def test_the_last_error_comes_from_the_last_traceback(jobs: Any, output: str, error: str) -> None:
    assert jobs("last_error").last_error(output) == error


def test_memory_events_are_read_in_a_pod_with_cgroup_v2(jobs: Any, tmp_path: Path) -> None:
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
