"""Each sign is found when its measure goes wrong, and not in runs that learn."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml

from history import REMEMBERED
from signs import SEVERITIES, SIGNS, Judge, Limits, Sign
from steps import Step
from tests.conftest import ROOT, thin

NAN = float("nan")


def run(count: int, **measures: Callable[[int], Any] | Any) -> list[Step]:
    """Return steps; a measure is a number or a function of the step's number."""
    return [
        Step(number, **{name: value(number) if callable(value) else value for name, value in measures.items()})
        for number in range(1, count + 1)
    ]


def signs(steps: Sequence[Step], limits: Limits | None = None) -> list[tuple[str, int]]:
    judge = Judge(limits)
    return [(sign.id, sign.step) for step in steps for sign in judge.add(step)]


def jump(at: int, before: float, after: float) -> Callable[[int], float]:
    return lambda number: after if number >= at else before


def varied(value: float) -> Callable[[int], float]:
    return lambda number: value * (1 + 0.01 * (number % 7))


@pytest.mark.parametrize(
    ("measures", "found"),
    [
        ({"loss": jump(4, 0.1, NAN)}, ("not-a-number", 4)),
        ({"grad_norm": jump(2, 0.1, math.inf)}, ("not-a-number", 2)),
        ({"reward": 0.0, "loss": 0.0}, ("dead-reward", 3)),
        ({"reward": 0.0}, ("dead-reward", 3)),
        # A penalty on the KL keeps the loss above 0.
        ({"reward": 0.0, "loss": varied(0.01)}, ("dead-reward", 3)),
        ({"reward": 1.0, "loss": 0.0}, ("dead-reward", 3)),
        ({"reward": 1.0, "reward_min": 1.0, "reward_max": 1.0, "loss": varied(0.01)}, ("dead-reward", 3)),
        ({"reward": lambda n: 0.1 * n if n < 5 else 0.0, "loss": 0.0}, ("dead-reward", 7)),
        ({"reward": lambda n: varied(jump(31, 0.6, 0.1)(n))(n), "loss": 0.1}, ("reward-collapse", 40)),
        ({"reward": lambda n: varied(jump(20, -0.5, -0.9)(n))(n)}, ("reward-below-start", 29)),
        # Of a step with a validation some logs have no reward.
        ({"reward": lambda n: varied(jump(21, -5, -6)(n))(n) if n % 10 else None}, ("reward-below-start", 31)),
        ({"kl": lambda n: varied(jump(20, 0.01, 3.0)(n))(n)}, ("kl-blow-up", 22)),
        ({"kl": lambda n: varied(jump(2, 0.001, 3.0)(n))(n)}, ("kl-blow-up", 4)),
        ({"length": jump(20, 200.5, 900.5)}, ("length-explosion", 22)),
        (
            {"length": lambda n: varied(jump(10, 400, 50)(n))(n), "reward": lambda n: varied(0.3)(n % 7)},
            ("length-collapse", 12),
        ),
        ({"truncated": jump(5, 0.05, 0.4)}, ("truncated", 7)),
        ({"length": jump(5, 700.5, 1024.0)}, ("truncated", 7)),
        ({"generation_kl": jump(5, 0.0005, 0.02)}, ("generation-mismatch", 7)),
        ({"importance_ratio": jump(5, 1.01, 1.4)}, ("importance-ratio", 7)),
        ({"importance_ratio": jump(5, 1.01, 0.5)}, ("importance-ratio", 7)),
        ({"entropy": lambda n: 1.0 / n, "reward": 0.3}, ("entropy-collapse", 40)),
        ({"grad_norm": jump(20, 0.3, 9.0)}, ("grad-norm-spikes", 22)),
        ({"seconds": jump(20, 60.0, 150.0)}, ("slow-steps", 22)),
        ({"seconds": jump(20, 60.0, 300.0), "length": jump(20, 100.5, 180.5)}, ("slow-steps", 22)),
    ],
)
def test_a_sign_is_found_at_the_step_that_shows_it(measures: dict[str, Any], found: tuple[str, int]) -> None:
    assert signs(run(45, **measures))[0] == found


def test_every_sign_has_a_case_above() -> None:
    marks = test_a_sign_is_found_at_the_step_that_shows_it.pytestmark  # type: ignore[attr-defined]
    assert {found[0] for _, found in marks[0].args[1]} == {*SIGNS}


@pytest.mark.parametrize(
    "measures",
    [
        # Of few answers, the same mean may come twice.
        {"reward": lambda n: 0.5 if n % 3 else 0.25, "loss": 0.0},
        # The mean is the same, and answers differ.
        {"reward": 0.5, "reward_min": 0.0, "reward_max": 1.0, "loss": 0.0},
        {"reward": 0.5, "loss": varied(0.01)},
        # A reward that falls, recovers, or is noisy.
        {"reward": lambda n: 0.6 - 0.005 * n, "loss": 0.1},
        {"reward": lambda n: 0.1 if 20 <= n < 28 else 0.6 + 0.001 * n, "loss": 0.1},
        # One long validation, or a checkpoint, makes one step long.
        {"seconds": lambda n: 900.0 if n % 10 == 0 else 60.0},
        # The first steps compile, and later ones do not.
        {"seconds": lambda n: 300.0 if n < 3 else 60.0},
        # Longer answers take longer.
        {"seconds": lambda n: 60.0 * (1 if n < 20 else 2.5), "length": lambda n: 100.5 * (1 if n < 20 else 2.5)},
        # Reasoning grows over hundreds of steps; a format is learned within a few.
        {"length": lambda n: 200.5 * 1.05**n, "reward": lambda n: 0.01 * n},
        {"length": lambda n: 400.5 if n < 8 else 150.5 + n, "reward": lambda n: 0.1 if n < 8 else 0.5 + 0.001 * n},
        # A warm-up of the learning rate starts with small gradients; single spikes are clipped.
        {"grad_norm": lambda n: min(n, 10) * 0.05},
        {"grad_norm": lambda n: 30.0 if n % 9 == 0 else 0.3},
        {"kl": lambda n: 0.004 * n},
        {"kl": 0.0},
        # The reference is not the model that the run began with: a teacher, or an earlier checkpoint.
        {"kl": varied(0.54)},
        # A run that has solved its task has little entropy left.
        {
            "entropy": lambda n: 0.25 if n < 6 else 0.02 + 0.001 * (n % 2),
            "reward": lambda n: min(0.1 * n, 0.97) - 0.001 * (n % 3),
        },
        {"entropy": lambda n: 0.4 / n, "reward": lambda n: 0.3 + 0.005 * n},
        {"truncated": lambda n: 0.5 if n < 3 else 0.02},
        {"importance_ratio": varied(0.97)},
        {},
    ],
)
def test_a_healthy_run_shows_no_sign(measures: dict[str, Any]) -> None:
    assert signs(run(60, **measures)) == []


@pytest.mark.parametrize("seed", thin(range(20), 4))
def test_noisy_but_healthy_runs_show_no_sign(seed: int) -> None:
    """Few answers a step, long validations, a warm-up, growing answers: none of it is a sign."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    steps = []
    for number in range(1, 301):
        skill = 0.05 + 0.8 * number / 300
        right = sum(chance.random() < skill for _ in range(64))
        steps.append(
            Step(
                number,
                reward=right / 64,
                reward_min=0.0,
                reward_max=1.0 if right else 0.0,
                loss=chance.gauss(0, 0.01),
                grad_norm=abs(chance.gauss(0.3, 0.1)) * min(1, number / 20),
                entropy=0.6 * math.exp(-number / 200),
                kl=0.0002 * number * chance.uniform(0.8, 1.2),
                generation_kl=chance.uniform(0.0002, 0.0015),
                importance_ratio=chance.uniform(0.99, 1.01),
                length=(250 + number) * chance.uniform(0.9, 1.1),
                seconds=chance.uniform(50, 70) + (600 if number % 10 == 0 else 0) + (200 if number == 1 else 0),
            )
        )
    # The reward of the first steps is that of a few answers: it may be 0 for all of them, but not three times.
    assert signs(steps) == []


def test_a_sign_is_reported_once_until_it_disappears() -> None:
    truncated = [0.5, 0.5, 0.5, 0.5, 0.0, 0.5, 0.5, 0.5]
    assert signs([Step(n, truncated=value) for n, value in enumerate(truncated, 1)]) == [
        ("truncated", 3),
        ("truncated", 8),
    ]


def test_steps_repeated_by_a_resumed_run_are_counted_once() -> None:
    """Two steps without reward before a kill, and the same two after it, are not four."""
    first = [*run(4, reward=lambda n: 0.1 * n, loss=0.1), Step(5, reward=0.0, loss=0.0), Step(6, reward=0.0, loss=0.0)]
    again = [Step(5, reward=0.0, loss=0.0), Step(6, reward=0.0, loss=0.0)]
    assert signs([*first, *again]) == []
    assert signs([*first, *again, Step(7, reward=0.0, loss=0.0)]) == [("dead-reward", 7)]
    judge = Judge()
    for step in [*first, *again]:
        judge.add(step)
    assert [step.number for step in judge.history.steps] == [1, 2, 3, 4, 5, 6]
    assert [step.number for step in judge.history.first] == [1, 2, 3, 4, 5]


def test_limits_can_be_changed() -> None:
    steps = run(9, reward=0.0, loss=0.0)
    assert signs(steps, Limits(dead_steps=6)) == [("dead-reward", 6)]
    assert signs(steps, Limits.of({"deadSteps": 6.0, "klFactor": 3})) == [("dead-reward", 6)]


def maximum(limit: str) -> int:
    """Return the most steps that the values may ask for."""
    guard = yaml.safe_load((ROOT / "schemas/values/job.yaml").read_text("utf-8"))["properties"]["guard"]
    found: int = guard["properties"]["limits"]["properties"][limit]["maximum"]
    return found


@pytest.mark.parametrize(
    ("limit", "measures", "sign"),
    [
        ("deadSteps", {"reward": 0.0, "loss": 0.0}, "dead-reward"),
        ("collapseSteps", {"reward": lambda n: varied(jump(150, 0.6, 0.1)(n))(n)}, "reward-collapse"),
        ("collapseSteps", {"reward": lambda n: varied(jump(150, -0.5, -0.9)(n))(n)}, "reward-below-start"),
        ("collapseSteps", {"entropy": lambda n: 1.0 / n, "reward": 0.3}, "entropy-collapse"),
        ("steps", {"length": jump(20, 200.5, 900.5)}, "length-explosion"),
        ("steps", {"seconds": jump(20, 60.0, 150.0)}, "slow-steps"),
        ("steps", {"grad_norm": jump(20, 0.3, 9.0)}, "grad-norm-spikes"),
        ("steps", {"kl": lambda n: varied(jump(20, 0.01, 3.0)(n))(n)}, "kl-blow-up"),
    ],
)
def test_enough_steps_are_remembered_for_the_largest_allowed_limit(limit: str, measures: Any, sign: str) -> None:
    assert sign in dict(signs(run(260, **measures), Limits.of({limit: maximum(limit)})))


def test_a_long_run_is_not_kept_in_memory() -> None:
    judge = Judge()
    for step in run(1000, reward=varied(0.5)):
        judge.add(step)
    assert len(judge.history.steps) == REMEMBERED


def test_a_run_is_stalled_after_ten_times_its_step_time_plus_pauses() -> None:
    judge = Judge()
    assert judge.silent(1e9) is None
    for step in run(10, seconds=400.0, reward=varied(0.5)):
        step.phases = {"checkpoint": 100.0, "validation": 30.0} if step.number == 5 else {}
        judge.add(step)
    assert judge.silent(5299) is None
    assert judge.silent(5301) == Sign("stalled", "error", 10, "no step for 5301 s; a step took 400 s")


@pytest.mark.parametrize(("phases", "limit"), [({"validation": 9.0}, 1800), ({"checkpoint": 9.0}, 7200), ({}, 7200)])
def test_a_run_with_short_steps_may_be_silent_during_its_first_validation(phases: dict[str, float], limit: int) -> None:
    """The log of verl says nothing of a validation before it ends; public logs have some of 58 to 127 minutes."""
    judge = Judge()
    for step in run(10, seconds=5.0, reward=varied(0.5)):
        step.phases = phases
        judge.add(step)
    assert judge.silent(limit - 1) is None
    assert judge.silent(limit + 1) is not None


def test_every_sign_has_a_valid_severity() -> None:
    assert {*SEVERITIES.values()} == {"error", "warning"}
    assert {*SEVERITIES} == {*SIGNS, "stalled"}


@pytest.mark.parametrize(
    "reward",
    [
        # Within the spread of the start, a fall of less than a tenth, a dip, a start that says nothing, a rise.
        lambda n: -0.5 - 0.05 * (n % 3),
        lambda n: varied(-0.5)(n) if n < 9 else -0.545,
        lambda n: varied(-0.9 if 20 <= n < 29 else -0.5)(n),
        lambda n: -0.5 if n < 20 else varied(-0.9)(n),
        lambda n: varied(-0.9 + 0.01 * n)(n),
    ],
)
@pytest.mark.parametrize("shift", [0.0, -7.0])
def test_a_reward_that_does_not_stay_below_its_start_shows_no_sign(
    reward: Callable[[int], float], shift: float
) -> None:
    assert signs(run(45, reward=lambda n: reward(n) + shift, loss=varied(0.1))) == []


def test_one_collapse_is_not_reported_twice() -> None:
    found = signs(run(45, reward=lambda n: varied(-0.5 if n < 6 else 0.6 if n < 20 else -0.9)(n)))
    assert found == [("reward-collapse", 29)]


@pytest.mark.parametrize("seed", thin(range(20), 4))
def test_a_noisy_but_stable_reward_has_not_collapsed(seed: int) -> None:
    """With two answers a step, ten low steps come by chance, and so does the best mean before them."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    steps = run(700, reward=lambda _: chance.gauss(0.15, 0.22), loss=0.1)
    assert signs(steps) == []


def test_a_collapse_of_a_noisy_reward_is_found_after_twenty_steps() -> None:
    chance = random.Random(7)  # noqa: S311 (no secret)
    steps = run(200, reward=lambda n: chance.gauss(0.15, 0.22) if n < 151 else chance.gauss(0.0, 0.02), loss=0.1)
    assert signs(steps) == [("reward-collapse", 170)]
