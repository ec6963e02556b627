"""When silence is a stall: the defaults of the chart over hours of a run, without waiting for them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

VALUES = yaml.safe_load((ROOT / "charts/grpo-job/values.yaml").read_text("utf-8"))["job"]["guard"]
# Seconds of the largest published run, and of a slow volume: Gemma 3 27B, 300 GiB at 0.2 GiB/s.
LOADING, FIRST, STEP, VALIDATION, SAVE = 3000, 3600, 1850, 2400, 1500


class Clock:
    """A heartbeat that is looked at every second."""

    def __init__(self, jobs: Any, *unseen: str) -> None:
        self.steps = jobs("steps")
        self.heart = jobs("heartbeat").Heartbeat(VALUES["deadlines"], VALUES["factor"], set(unseen))

    def wait(self, seconds: int) -> bool:
        """Return whether so many seconds are too many."""
        for _ in range(seconds):
            self.heart.tick(1.0)
        return bool(self.heart.overdue())

    def phase(self, name: str) -> None:
        self.heart.beat(self.steps.Phase(name))

    def step(self, number: int) -> None:
        self.heart.beat(self.steps.Step(number, 1))


def test_a_large_nemo_rl_run_is_never_overdue(jobs: Any) -> None:
    clock = Clock(jobs)
    clock.phase("loading")
    assert not clock.wait(LOADING)
    for number in range(1, 5):
        clock.phase("step")
        assert not clock.wait(FIRST if number == 1 else STEP)
        clock.phase("validation")
        assert not clock.wait(VALIDATION)
        clock.phase("step")
        clock.phase("checkpoint")
        assert not clock.wait(SAVE)
        clock.phase("step")
        clock.step(number)


def test_a_large_verl_run_is_never_overdue_despite_printing_nothing_during_a_step(jobs: Any) -> None:
    clock = Clock(jobs, "checkpoint", "validation")
    clock.phase("loading")
    assert not clock.wait(LOADING)
    clock.phase("step")
    for number in range(1, 5):
        assert not clock.wait((FIRST if number == 1 else STEP) + (VALIDATION + SAVE if number % 2 else 0))
        clock.step(number)
        clock.phase("step")


@pytest.mark.parametrize(
    ("phase", "key"), [("loading", "loading"), ("checkpoint", "checkpoint"), ("step", "firstStep")]
)
def test_a_stall_is_detected_at_the_floor(jobs: Any, phase: str, key: str) -> None:
    clock = Clock(jobs)
    clock.phase(phase)
    floor = VALUES["deadlines"][f"{key}Seconds"]
    assert not clock.wait(floor)
    assert clock.wait(1)


def test_slow_steps_have_deadlines_above_the_floor(jobs: Any) -> None:
    clock = Clock(jobs)
    for number in range(1, 4):
        clock.phase("step")
        clock.wait(2000)
        clock.phase("checkpoint")
        clock.wait(10)
        clock.phase("step")
        clock.step(number)
    assert clock.heart.deadline() == VALUES["factor"] * 2000


def test_the_first_step_after_a_restart_is_allowed_time_to_compile(jobs: Any) -> None:
    clock = Clock(jobs)
    clock.phase("step")
    clock.step(1)
    clock.phase("step")
    assert clock.heart.phase == "step"
    clock.heart.begin()
    clock.phase("step")
    assert clock.heart.phase == "first step"


def test_a_pause_of_this_program_barely_counts_as_silence(jobs: Any) -> None:
    clock = Clock(jobs)
    clock.phase("checkpoint")
    clock.heart.tick(1_000_000.0)
    assert not clock.heart.overdue()


def test_before_the_first_step_new_output_counts_as_progress(jobs: Any) -> None:
    clock = Clock(jobs)
    floor = VALUES["deadlines"]["loadingSeconds"]
    assert not clock.wait(floor)
    assert clock.wait(1)
    assert clock.heart.silence() > floor
    # A program that loads as the framework does, and then prints steps of its own.
    clock.phase("loading")
    assert clock.wait(100_000)
    clock.heart.hear()
    assert clock.heart.silence() == 0
    clock.step(1)
    clock.wait(1)
    clock.heart.hear()
    assert clock.heart.silence() == 1
