"""The trainer under supervision: exit codes, signals, retries, deadlines, a volume that hangs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .harness import BEAT, LAPSE, load_program
from .simulation.machine import Machine


@pytest.mark.parametrize("code", [3, 0, 1, 255])
def test_the_exit_code_is_that_of_the_trainer(machine: Machine, code: int) -> None:
    assert machine.start("--code", code).wait() == code
    assert machine.record()["state"] == "released"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_gives_the_exit_code_of_a_shell(machine: Machine, number: signal.Signals) -> None:
    assert machine.start("--kill", int(number)).wait() == 128 + number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_forwarded_once(machine: Machine, number: signal.Signals) -> None:
    launch = machine.start("--run", 30, "--save", 0.5, "--code", 4)
    machine.trains(1)
    launch.signal(number)
    machine.until(lambda: machine.count(number.name), "the signal arrives")
    launch.signal(number)
    assert launch.wait() == 4
    assert machine.count(number.name) == 1
    assert machine.record()["state"] == "released"


def test_a_signal_already_sent_to_the_trainer_by_ray_is_not_repeated(machine: Machine) -> None:
    command = machine.trainer("--name", 1, "--run", 30, "--save", 0.5)
    launch = machine.start_plan(machine.plan(command=command), RAY_JOB_CONFIG_JSON_ENV_VAR="{}")
    machine.trains(1)
    launch.signal(signal.SIGTERM)
    machine.kill(machine.trainer_pid(1), signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert machine.count("SIGTERM") == 1


def test_a_failing_trainer_is_restarted(machine: Machine) -> None:
    launch = machine.start("--code", 5, retries=2)
    assert launch.wait() == 5
    assert len(machine.intervals()) == 3
    assert "retry 2 of 2" in launch.output
    machine.never_two()


def test_a_trainer_that_succeeds_is_not_restarted(machine: Machine) -> None:
    assert machine.start(retries=2).wait() == 0
    assert len(machine.intervals()) == 1


def test_a_trainer_stopped_by_a_signal_is_not_restarted(machine: Machine) -> None:
    launch = machine.start("--run", 30, "--code", 6, retries=2)
    machine.trains(1)
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 6
    assert len(machine.intervals()) == 1


def test_a_deadline_stops_the_trainer_without_a_retry(machine: Machine) -> None:
    limit = {"SIGTERM": 8, "SIGKILL": 20}
    launch = machine.start("--run", 30, "--save", 0.5, "--code", 0, retries=2, deadline=limit)
    assert launch.wait() == 128 + signal.SIGTERM
    assert "job.deadlineSeconds: SIGTERM in 8 s" in launch.output
    assert machine.count("SIGTERM") == 1
    assert len(machine.intervals()) == 1
    assert machine.record()["state"] == "released"


def test_a_trainer_that_does_not_save_in_time_is_killed(machine: Machine) -> None:
    launch = machine.start("--run", 30, "--save", 30, deadline={"SIGTERM": 8, "SIGKILL": 9})
    machine.trains(1)
    pid = machine.trainer_pid(1)
    assert launch.wait() == -signal.SIGKILL
    machine.until(lambda: not Path(f"/proc/{pid}").exists(), "the trainer's end")


def test_a_deadline_also_ends_the_wait_for_a_previous_owner(machine: Machine) -> None:
    first = machine.start("--run", 30)
    machine.trains(1)
    second = machine.start(attempt=2, deadline={"SIGTERM": 0.5, "SIGKILL": 10})
    assert second.wait() == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in second.output
    assert not first.ended()
    first.signal(signal.SIGTERM)
    first.wait()


def test_a_retry_starts_only_while_the_run_is_owned(machine: Machine) -> None:
    launch = machine.start("--code", 5, "--run", 0.5, retries=5)
    machine.trains(1)
    machine.until(lambda: "retry 1 of 5" in launch.output, "the first retry")
    (machine.directory / "owners/2.json").write_text("{}")
    assert launch.wait() == 1
    assert len(machine.intervals()) < 6
    assert "taken over" in launch.output


def test_a_stop_between_retries_takes_effect_at_once_and_releases_the_run(machine: Machine) -> None:
    machine.environment["GRPO_OWNER_BEAT_SECONDS"] = "6"
    machine.environment["GRPO_OWNER_LAPSE_SECONDS"] = "24"
    launch = machine.start("--code", 5, retries=1)
    launch.says("retry 1 of 1")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert len(machine.intervals()) == 1
    assert machine.record()["state"] == "released"


def test_leftover_trainer_processes_end_before_the_next_attempt_starts(machine: Machine) -> None:
    launch = machine.start("--run", 4, "--leave")
    machine.trains("left")
    second = machine.start(attempt=2)
    assert launch.wait() == 0, launch.output
    assert second.wait() == 0
    left = [span for span in machine.intervals() if span[2] == "left"]
    after = [span for span in machine.intervals() if span[2] == "2"]
    assert left[0][1] < after[0][0]
    assert left[0][1] - left[0][0] < 4 + LAPSE


def test_a_stop_does_not_wait_for_the_next_heartbeat(machine: Machine) -> None:
    launch = machine.start("--run", 30)
    machine.trains(1)
    asked = machine.now()
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    # It looks five times a heartbeat.
    assert machine.now() - asked <= BEAT


def test_the_output_is_kept_on_the_volume_too(machine: Machine) -> None:
    """A cluster of the job's own ends with it, and Ray's logs with the cluster."""
    launch = machine.start("--say", "loss is nan", "--code", 5, retries=1)
    assert launch.wait() == 5
    log = (machine.directory / "attempts/1/output.log").read_text(encoding="utf-8")
    assert log.count("loss is nan\n") == 2
    assert "retry 1 of 1" in log
    ended = "grpo: the trainer ended with exit code 5"
    assert ended in log.splitlines()
    assert launch.last == ended
    assert log in launch.output


def test_a_second_launch_of_an_attempt_appends_to_its_output(machine: Machine) -> None:
    """A retry on a cluster of its own is another launch."""
    for text in ("heads", "tails"):
        assert machine.start("--say", text).wait() == 0
    log = (machine.directory / "attempts/1/output.log").read_text(encoding="utf-8")
    assert log.index("\nheads\n") < log.index("\ntails\n")


def test_a_save_may_slow_down_the_volume_for_minutes() -> None:
    """300 GiB to a network file system hold up a small write for that long; only then the trainer is stopped."""
    owner = load_program("owner")
    assert owner.LAPSE_SECONDS > owner.FENCE_SECONDS + owner.GRACE_SECONDS
    assert owner.FENCE_SECONDS >= 120


def test_a_volume_that_hangs_for_28_s_has_no_effect(machine: Machine) -> None:
    """With the times of the chart."""
    del machine.environment["GRPO_OWNER_LAPSE_SECONDS"]
    launch = machine.start("--run", 36, takeoverSeconds=600)
    machine.trains(1)
    machine.volume.hang("owner.json")
    machine.sleep(28)
    machine.volume.answer()
    assert launch.wait() == 0, launch.output
    assert machine.count("SIGTERM") == 0
    assert len(machine.intervals()) == 1
    assert machine.record()["state"] == "released"


def test_a_storage_stall_is_reported_with_its_consequence(machine: Machine) -> None:
    machine.environment["GRPO_OWNER_LAPSE_SECONDS"] = "12"
    launch = machine.start("--run", 60)
    machine.trains(1)
    hidden = machine.directory.with_name("hidden")
    machine.directory.rename(hidden)
    launch.says("s; the trainer continues, but is stopped after 8 s")
    hidden.rename(machine.directory)
    # The watchdog of the launcher says so too, without a warning.
    launch.says("warning: the volume answers again")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert launch.output.partition("warning: the volume answers again")[0].count("the trainer continues") == 1


def test_a_volume_that_recovers_costs_a_retry_and_not_the_run(machine: Machine) -> None:
    launch = machine.start("--run", 2 * LAPSE, "--deaf", retries=1)
    machine.trains(1)
    hidden = machine.directory.with_name("hidden")
    machine.directory.rename(hidden)
    launch.says("stopping the trainer")
    machine.until(lambda: machine.count("SIGTERM"), "the trainer is stopped")
    hidden.rename(machine.directory)
    assert launch.wait() == 0, launch.output
    assert "retry 1 of 1" in launch.output
    assert len(machine.intervals()) == 2
    machine.never_two()


def test_a_volume_that_recovers_after_a_takeover_starts_nothing(machine: Machine) -> None:
    launch = machine.start("--run", 30, "--deaf", retries=1)
    machine.trains(1)
    hidden = machine.directory.with_name("hidden")
    machine.directory.rename(hidden)
    launch.says("stopping the trainer")
    (hidden / "owners/2.json").write_text("{}")
    hidden.rename(machine.directory)
    assert launch.wait() == 1
    assert "taken over" in launch.output
    assert len(machine.intervals()) == 1


def test_a_trainer_that_saved_after_a_signal_does_not_count_as_successful(machine: Machine) -> None:
    launch = machine.start("--run", 30, "--save", 0.1)
    machine.trains(1)
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
