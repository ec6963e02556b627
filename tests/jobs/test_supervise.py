"""The trainer under supervision: exit codes, signals, retries, what it inherits and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import thin

from .harness import LAPSE, SOON, Site, hang, load_program, until


@pytest.mark.parametrize("code", thin([3, 0, 1, 255], 4))
def test_the_exit_code_is_the_trainers(site: Site, code: int) -> None:
    assert site.start("--code", code).wait() == code
    assert site.record()["state"] == "released"


@pytest.mark.parametrize("number", thin([signal.SIGKILL, signal.SIGSEGV], 2))
def test_a_signal_is_told_as_a_shell_does(site: Site, number: signal.Signals) -> None:
    assert site.start("--kill", int(number)).wait() == 128 + number


@pytest.mark.parametrize("number", thin([signal.SIGTERM, signal.SIGINT], 2))
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
    assert launch.wait() == 128 + signal.SIGTERM
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


@pytest.mark.full
def test_a_deadline_stops_the_trainer_and_is_not_retried(site: Site) -> None:
    limit = {"SIGTERM": 8, "SIGKILL": 20}
    launch = site.start("--run", 30, "--save", 0.5, "--code", 0, retries=2, deadline=limit)
    assert launch.wait() == 128 + signal.SIGTERM
    assert "job.deadlineSeconds: SIGTERM in 8 s" in launch.output
    assert site.count("SIGTERM") == 1
    assert len(site.intervals()) == 1
    assert site.record()["state"] == "released"


@pytest.mark.full
def test_a_trainer_that_does_not_save_in_time_is_killed(site: Site) -> None:
    launch = site.start("--run", 30, "--save", 30, deadline={"SIGTERM": 8, "SIGKILL": 9})
    site.trains(1)
    pid = site.trainer_pid(1)
    assert launch.wait() == -signal.SIGKILL
    until(lambda: not Path(f"/proc/{pid}").exists(), "the trainer's end")


@pytest.mark.full
def test_a_deadline_also_ends_the_wait_for_another_owner(site: Site) -> None:
    first = site.start("--run", 30)
    site.trains(1)
    second = site.start(attempt=2, deadline={"SIGTERM": 0.5, "SIGKILL": 10})
    assert second.wait() == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in second.output
    assert not first.ended()
    first.signal(signal.SIGTERM)
    first.wait()


def test_a_retry_needs_the_run(site: Site) -> None:
    launch = site.start("--code", 5, "--run", 0.5, retries=5)
    site.trains(1)
    until(lambda: "retry 1 of 5" in launch.output, "the first retry")
    (site.directory / "owners/2.json").write_text("{}")
    assert launch.wait() == 1
    assert len(site.intervals()) < 6
    assert "taken over" in launch.output


@pytest.mark.full
def test_a_stop_between_retries_ends_at_once_and_releases(site: Site) -> None:
    site.environment["GRPO_OWNER_BEAT_SECONDS"] = "6"
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "24"
    launch = site.start("--code", 5, retries=1)
    launch.says("retry 1 of 1")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert len(site.intervals()) == 1
    assert site.record()["state"] == "released"


def test_the_trainer_inherits_neither_plan_nor_program(site: Site, tmp_path: Path) -> None:
    listing = tmp_path / "descriptors"
    launch = site.start("--descriptors", listing)
    assert launch.wait() == 0
    opened = json.loads(listing.read_text())
    assert opened.pop("0") == "/dev/null"
    assert opened.pop("1") == opened.pop("2")
    # The trainer's own: its log, and the listing that it writes.
    assert {Path(target).name for target in opened.values()} <= {"stamps", "descriptors"}


@pytest.mark.full
def test_what_the_trainer_leaves_behind_ends_before_the_run_is_released(site: Site) -> None:
    launch = site.start("--run", 4, "--leave")
    site.trains("left")
    second = site.start(attempt=2)
    assert launch.wait() == 0
    assert second.wait() == 0
    left = [span for span in site.intervals() if span[2] == "left"]
    after = [span for span in site.intervals() if span[2] == "2"]
    assert left[0][1] < after[0][0]
    assert left[0][1] - left[0][0] < 4 + LAPSE


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
    assert "broken" in launch.last
    assert site.record()["state"] == "released"


def test_a_stop_does_not_wait_for_a_beat(site: Site) -> None:
    launch = site.start("--run", 30)
    site.trains(1)
    asked = time.monotonic()
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert time.monotonic() - asked < SOON


def test_the_output_is_kept_on_the_volume_too(site: Site) -> None:
    """A cluster of the job's own ends with it, and Ray's logs with the cluster."""
    launch = site.start("--say", "loss is nan", "--code", 5, retries=1)
    assert launch.wait() == 5
    log = (site.directory / "attempts/1/output.log").read_text(encoding="utf-8")
    assert log.count("loss is nan\n") == 2
    assert "retry 1 of 1" in log
    ended = "grpo: the trainer ended with exit code 5"
    # The disk of a busy machine may be slow after that, which the launcher says.
    assert ended in log.splitlines()
    assert launch.last == ended
    assert log in launch.output


@pytest.mark.full
def test_a_second_launch_of_an_attempt_adds_to_its_output(site: Site) -> None:
    """A retry on a cluster of its own is another launch."""
    for text in ("heads", "tails"):
        assert site.start("--say", text).wait() == 0
    log = (site.directory / "attempts/1/output.log").read_text(encoding="utf-8")
    assert log.index("\nheads\n") < log.index("\ntails\n")


def test_output_that_cannot_be_kept_does_not_stop_the_run(site: Site) -> None:
    (site.directory / "attempts/1").mkdir(parents=True)
    (site.directory / "attempts/1/output.log").symlink_to("/dev/full")
    launch = site.start("--say", "still here")
    assert launch.wait() == 0
    assert "cannot write " in launch.output
    assert "still here" in launch.output


def test_a_process_that_keeps_the_output_open_does_not_hold_the_launch(site: Site) -> None:
    started = time.monotonic()
    assert site.start("--away").wait() == 0
    assert time.monotonic() - started < SOON


CHATTY = """
import os, signal, sys, time
log, end = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT), time.monotonic() + 30
def note(word): os.write(log, f"1 {os.getpid()} {word} {time.monotonic()}\\n".encode())
signal.signal(signal.SIGTERM, lambda *_: (note("SIGTERM"), os._exit(0)))
while time.monotonic() < end:
    note("alive")
    print("x" * 9999, flush=True)
    time.sleep(0.002)
"""


@pytest.fixture
def chatty(site: Site) -> Iterator[list[str]]:
    """A trainer that prints a lot, on a volume on which output.log takes 64 KiB and then hangs."""
    script = site.tmp / "chatty.py"
    script.write_text(CHATTY)
    log = site.directory / "attempts/1/output.log"
    log.parent.mkdir(parents=True)
    os.mkfifo(log)
    # Held open by the test, so that opening it does not hang already.
    held = os.open(log, os.O_RDWR)
    yield ["python3", str(script), str(site.stamps)]
    os.close(held)


@pytest.mark.full
def test_a_copy_that_hangs_does_not_keep_a_signal_from_the_trainer(site: Site, chatty: list[str]) -> None:
    launch = site.start_plan(site.plan(command=chatty))
    site.trains(1)
    time.sleep(0.5)
    asked = time.monotonic()
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert site.count("SIGTERM") == 1
    assert time.monotonic() - asked < SOON


@pytest.mark.full
def test_a_volume_that_hangs_stops_the_trainer_in_time(site: Site, chatty: list[str]) -> None:
    launch = site.start_plan(site.plan(command=chatty))
    site.trains(1)
    hung = hang(site.directory / "owner.json")
    until(lambda: site.count("SIGTERM"), "the trainer is stopped")
    assert time.monotonic() - hung < LAPSE
    launch.process.kill()


def test_a_save_may_load_the_volume_for_minutes() -> None:
    """300 GiB to a network file system hold up a small write for that long; only then the trainer is stopped."""
    owner = load_program("owner")
    assert owner.LAPSE > owner.FENCE + owner.GRACE
    assert owner.FENCE >= 120


@pytest.mark.full
def test_a_volume_that_hangs_for_28_s_costs_nothing(site: Site) -> None:
    """With the times of the chart."""
    del site.environment["GRPO_OWNER_LAPSE_SECONDS"]
    launch = site.start("--run", 36, takeoverSeconds=600)
    site.trains(1)
    record = site.directory / "owner.json"
    hang(record)
    time.sleep(28)
    assert site.count("SIGTERM") == 0
    # An empty answer: the record was lost, and the owner writes it again.
    os.close(os.open(record, os.O_WRONLY))
    assert launch.wait(30) == 0, launch.output
    assert len(site.intervals()) == 1
    assert site.record()["state"] == "released"


@pytest.mark.full
def test_a_stall_is_told_with_what_follows(site: Site) -> None:
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "12"
    launch = site.start("--run", 60)
    site.trains(1)
    hidden = site.directory.with_name("hidden")
    site.directory.rename(hidden)
    launch.says("s; the trainer continues, but is stopped after 8 s")
    hidden.rename(site.directory)
    # The watchdog of the launcher says so too, without a warning.
    launch.says("warning: the volume answers again")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert launch.output.partition("warning: the volume answers again")[0].count("the trainer continues") == 1


@pytest.mark.full
def test_a_volume_that_comes_back_costs_a_retry_and_not_the_run(site: Site) -> None:
    launch = site.start("--run", 2 * LAPSE, "--deaf", retries=1)
    site.trains(1)
    hidden = site.directory.with_name("hidden")
    site.directory.rename(hidden)
    launch.says("stopping the trainer")
    until(lambda: site.count("SIGTERM"), "the trainer is stopped")
    hidden.rename(site.directory)
    assert launch.wait() == 0
    assert "retry 1 of 1" in launch.output
    assert len(site.intervals()) == 2
    site.never_two()


@pytest.mark.full
def test_a_volume_that_comes_back_to_a_taken_run_starts_nothing(site: Site) -> None:
    launch = site.start("--run", 30, "--deaf", retries=1)
    site.trains(1)
    hidden = site.directory.with_name("hidden")
    site.directory.rename(hidden)
    launch.says("stopping the trainer")
    (hidden / "owners/2.json").write_text("{}")
    hidden.rename(site.directory)
    assert launch.wait() == 1
    assert "taken over" in launch.output
    assert len(site.intervals()) == 1


def test_a_trainer_that_saved_after_a_signal_has_not_ended_well(site: Site) -> None:
    launch = site.start("--run", 30, "--save", 0.1)
    site.trains(1)
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
