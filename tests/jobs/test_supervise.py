"""The trainer under supervision: exit codes, signals, retries, what it inherits and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from .harness import LAPSE, Site, until


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_the_trainers(site: Site, code: int) -> None:
    assert site.start("--code", code).wait() == code
    assert site.record()["state"] == "released"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_is_told_as_a_shell_does(site: Site, number: signal.Signals) -> None:
    assert site.start("--kill", int(number)).wait() == 128 + number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_forwarded_once(site: Site, number: signal.Signals) -> None:
    launch = site.start("--run", 30, "--save", 0.5, "--code", 4)
    site.trains(1)
    launch.signal(number)
    until(lambda: site.count(number.name), "the signal arrives")
    launch.signal(number)
    assert launch.wait() == 4
    assert site.count(number.name) == 1
    assert site.record()["state"] == "released"


def test_a_signal_that_ray_has_sent_to_the_trainer_too_is_not_doubled(site: Site) -> None:
    command = site.trainer("--name", 1, "--run", 30, "--save", 0.5)
    launch = site.start_plan(site.plan(command=command), RAY_JOB_CONFIG_JSON_ENV_VAR="{}")
    site.trains(1)
    launch.signal(signal.SIGTERM)
    os.kill(site.trainer_pid(1), signal.SIGTERM)
    assert launch.wait() == 0
    assert site.count("SIGTERM") == 1


def test_a_failing_trainer_is_started_again(site: Site) -> None:
    launch = site.start("--code", 5, retries=2)
    assert launch.wait() == 5
    assert len(site.intervals()) == 3
    assert "retry 2 of 2" in launch.output
    site.never_two()


def test_a_trainer_that_succeeds_is_not_started_again(site: Site) -> None:
    assert site.start(retries=2).wait() == 0
    assert len(site.intervals()) == 1


def test_a_trainer_that_was_told_to_stop_is_not_started_again(site: Site) -> None:
    launch = site.start("--run", 30, "--code", 6, retries=2)
    site.trains(1)
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 6
    assert len(site.intervals()) == 1


def test_a_retry_needs_the_run(site: Site) -> None:
    launch = site.start("--code", 5, "--run", 0.5, retries=5)
    site.trains(1)
    until(lambda: "retry 1 of 5" in launch.output, "the first retry")
    (site.directory / "owners/2.json").write_text("{}")
    assert launch.wait() == 1
    assert len(site.intervals()) < 4
    assert "taken over" in launch.output


def test_a_stop_between_retries_ends_at_once_and_releases(site: Site) -> None:
    site.environment["GRPO_OWNER_BEAT_SECONDS"] = "1.2"
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "5"
    launch = site.start("--code", 5, retries=1)
    launch.says("retry 1 of 1")
    launch.signal(signal.SIGTERM)
    assert launch.wait(1) == 128 + signal.SIGTERM
    assert len(site.intervals()) == 1
    assert site.record()["state"] == "released"


def test_the_trainer_inherits_neither_plan_nor_program(site: Site, tmp_path: Path) -> None:
    listing = tmp_path / "descriptors"
    launch = site.start("--descriptors", listing)
    assert launch.wait() == 0
    opened = json.loads(listing.read_text())
    assert opened.pop("0") == "/dev/null"
    assert {Path(opened.pop(fd)).name for fd in "12"} == {"output-0"}
    # The trainer's own: its log, and the listing that it writes.
    assert {Path(target).name for target in opened.values()} <= {"stamps", "descriptors"}


def test_what_the_trainer_leaves_behind_ends_before_the_run_is_released(site: Site) -> None:
    launch = site.start("--run", 0.5, "--leave")
    site.trains("left")
    second = site.start(attempt=2)
    assert launch.wait() == 0
    assert second.wait() == 0
    left = [span for span in site.intervals() if span[2] == "left"]
    after = [span for span in site.intervals() if span[2] == "2"]
    assert left[0][1] < after[0][0]
    assert left[0][1] - left[0][0] < 0.5 + LAPSE


def test_lines_appear_while_the_trainer_runs(site: Site) -> None:
    launch = site.start("--run", 30)
    launch.says("the trainer runs as process")
    assert not launch.ended()


def test_a_program_that_cannot_be_executed_is_one_line(site: Site) -> None:
    script = site.tmp / "bin" / "broken"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    launch = site.start(command=["broken"])
    assert launch.wait() == 1
    assert "Traceback" not in launch.output
    assert "broken" in launch.output.splitlines()[-1]
    assert site.record()["state"] == "released"


def test_a_stop_does_not_wait_for_a_beat(site: Site) -> None:
    launch = site.start("--run", 30)
    site.trains(1)
    asked = time.monotonic()
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 0
    assert time.monotonic() - asked < 1
