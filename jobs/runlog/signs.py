"""Signs in a run's steps that it does not learn or will not continue; only the standard library is needed.

    judge = Judge()
    for step in steps:
        for sign in judge.add(step):  # signs that the previous step did not show
            ...
    judge.silent(seconds)             # a run that no longer prints anything

A sign is found at the last step, from this step and the steps before. Its limits are in `Limits`;
`job.guard.limits` in the values has the same limits, documents their origin, and may change them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Final, NamedTuple

from history import History
from steps import CHECKPOINT, VALIDATION, Step

ERROR: Final = "error"
WARNING: Final = "warning"
STALLED: Final = "stalled"


class Sign(NamedTuple):
    """What is wrong, with its numbers: `id` names the sign, `step` is the number of the step that shows it."""

    id: str
    severity: str
    step: int
    what: str


@dataclass(frozen=True)
class Limits:
    """The limits beyond which a measure is a sign: `…_steps` are consecutive, a `…_factor` is relative to a median."""

    # Rewards without variation, and a loss of which four printed decimals show nothing.
    dead_steps: int = 3
    dead_loss: float = 1e-4
    # All of these steps are below this share of the best mean of as many steps before.
    collapse_steps: int = 10
    collapse_factor: float = 0.5
    # As many steps are, where the reward usually changes from one step to the next by more than that share.
    noisy_steps: int = 20
    # How far all of these steps are below the lowest reward of the start, as a share of the range of the start.
    fallen: float = 0.5
    # A measure that jumps for one or two steps is no sign.
    steps: int = 3
    longer_factor: float = 3.0
    shorter_factor: float = 0.5
    # A reward that is higher by this share has risen, one that is lower by it has fallen.
    risen: float = 0.1
    truncated: float = 0.1
    kl: float = 0.5
    kl_factor: float = 10.0
    generation_kl: float = 0.01
    entropy_factor: float = 0.1
    entropy: float = 0.02
    # A mean reward from which on a run has nothing left to learn, as a share of the highest reward.
    solved: float = 0.9
    grad_norm: float = 1.0
    grad_norm_factor: float = 10.0
    ratio_low: float = 0.8
    ratio_high: float = 1.25
    slower_factor: float = 2.0
    # Not in job.guard.limits: the values have deadlines for each phase.
    silent_factor: float = 10.0
    silent_seconds: float = 1800.0
    # A run without a validation yet may be in its first, of which verl says nothing before it ends.
    validation_seconds: float = 7200.0

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Limits:
        """Return limits from values that use the chart's names: klFactor is kl_factor."""
        named = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): value for key, value in values.items()}
        # YAML knows one kind of number, and counts must be whole.
        return cls(**{name: type(getattr(cls, name))(value) for name, value in named.items()})


def not_a_number(history: History, limits: Limits) -> str:
    """Find a measure that is NaN or infinite."""
    del limits
    step = history.steps[-1]
    values = {"the loss": step.loss, "the gradient norm": step.grad_norm, "the reward": step.reward, "the KL": step.kl}
    return " and ".join(f"{name} is {value}" for name, value in values.items() if not is_finite(value))


def is_finite(value: float | None) -> bool:
    return value is None or math.isfinite(value)


def dead_reward(history: History, limits: Limits) -> str:
    """Find rewards that are equal for all answers, so that no group has an advantage and the model learns nothing."""
    count = limits.dead_steps
    rewards, losses = history.last("reward", count), history.last("loss", count)
    if not rewards or len(set(rewards)) > 1:
        return ""
    low, high = history.last("reward_min", count), history.last("reward_max", count)
    same = f"the mean reward of {count} steps is {rewards[-1]:g}"
    if low and high:
        return f"{same}, and so is that of every answer" if low == high else ""
    if losses and max(map(abs, losses)) < limits.dead_loss:
        return f"{same}, and the loss is below {limits.dead_loss:g}"
    # A penalty on the KL keeps the loss above 0. Other means than 0 may be equal by chance.
    return same if rewards[-1] == 0 else ""


def reward_collapse(history: History, limits: Limits) -> str:
    """Find rewards that remain far below what the run had reached."""
    steps, factor = limits.collapse_steps, limits.collapse_factor
    for count, in_noise in ((steps, False), (max(steps, limits.noisy_steps), True)):
        now, before = history.last("reward", count), history.before("reward", count)
        if not now or not before or max(now) >= max(before) * factor:
            return ""
        best = max((fmean(before[at : at + steps]) for at in range(len(before) - steps + 1)), default=0.0)
        if best <= 0 or max(now) >= best * factor:
            return ""
        # Where few answers make a step, ten low ones come by chance.
        noise = median(abs(one - other) for one, other in pairwise(before))
        if in_noise or noise <= best * factor:
            after = f"after {best:.3g} on average of {steps} steps"
            return f"the reward is at most {max(now):.3g} for {count} steps, {after}"
    return ""


def reward_below_start(history: History, limits: Limits) -> str:
    """Find rewards that remain below the entire start, if the start's mean is not positive and so allows no ratio."""
    count = limits.collapse_steps
    # Of a step with a validation the reward may be missing.
    now, start = history.before("reward", 0, last=2 * count)[-count:], history.start("reward", count)
    if len(now) < count or not start or fmean(start) > 0 or reward_collapse(history, limits):
        return ""
    lowest, highest = min(start), max(start)
    # A start without variation says nothing about how much a reward varies.
    least = max(limits.fallen * (highest - lowest), limits.risen * abs(fmean(start)))
    if lowest == highest or max(now) >= lowest - least:
        return ""
    below = f"for {count} steps the reward is at most {max(now):.3g}"
    return f"{below}, {lowest:.3g} to {highest:.3g} at the start"


def length_explosion(history: History, limits: Limits) -> str:
    """Find answers that are suddenly many times longer."""
    now, before = history.last("length", limits.steps), history.before("length", limits.steps, last=10)
    if not now or len(before) < limits.steps or min(now) <= (usual := median(before)) * limits.longer_factor:
        return ""
    times = f"{now[-1] / usual:.1f} times as many as" if usual else "0"
    return f"answers have {now[-1]:.0f} tokens on average, {times} in the steps before"


def length_collapse(history: History, limits: Limits) -> str:
    """Find answers that became short while the reward did not rise."""
    now, start = history.last("length", limits.steps), history.start("length", limits.steps)
    if not now or not start or max(now) >= (usual := median(start)) * limits.shorter_factor:
        return ""
    reward, first = history.last("reward", limits.steps), history.start("reward", limits.steps)
    if not reward or not first or fmean(reward) > fmean(first) + limits.risen * abs(fmean(first)):
        return ""
    fell = f"{now[-1]:.0f} tokens on average, {usual:.0f} at the start"
    return f"answers have {fell}, and the reward did not rise: {fmean(reward):.3g}, {fmean(first):.3g} at the start"


def truncated(history: History, limits: Limits) -> str:
    """Find answers that end at the length limit."""
    if now := history.last("truncated", limits.steps):
        found = f"{now[-1]:.0%} of the answers reach the limit of their length"
        return (
            f"{found}, for {limits.steps} steps more than {limits.truncated:.0%}" if min(now) > limits.truncated else ""
        )
    lengths = history.last("length", limits.steps)
    # Means of lengths differ unless all answers have the same one.
    is_limit = lengths and lengths[-1] > 1 and len(set(lengths)) == 1 and lengths[-1].is_integer()
    return (
        f"answers have {lengths[-1]:.0f} tokens in each of {limits.steps} steps: all reach the limit"
        if is_limit
        else ""
    )


def kl_blow_up(history: History, limits: Limits) -> str:
    """Find a policy that drifts away from the reference model."""
    now, before = history.last("kl", limits.steps), history.before("kl", limits.steps)
    # A run begins with its reference; where the reference is another model, the KL is high from the first step on.
    start = history.before("kl", 1)[:1]
    usual = median(before) if len(before) >= limits.steps else (start or [0.0])[0]
    if not now or min(now) <= limits.kl or min(now) <= usual * limits.kl_factor:
        return ""
    return f"the KL from the reference model is {now[-1]:.3g}, {usual:.3g} in the steps before"


def generation_mismatch(history: History, limits: Limits) -> str:
    """Find an engine whose probabilities differ from the policy's."""
    now = history.last("generation_kl", limits.steps)
    if not now or min(now) <= limits.generation_kl:
        return ""
    above = f"for {limits.steps} steps above {limits.generation_kl:g}"
    return f"the KL of policy and generation is {now[-1]:.3g}, {above}"


def importance_ratio(history: History, limits: Limits) -> str:
    """Find policy-to-engine ratios that remain away from 1."""
    now = history.last("importance_ratio", limits.steps)
    if not now or not (max(now) < limits.ratio_low or min(now) > limits.ratio_high):
        return ""
    expected = f"expected {limits.ratio_low} to {limits.ratio_high}"
    return f"the mean importance ratio is {now[-1]:.3g}, for {limits.steps} steps away from 1: {expected}"


def entropy_collapse(history: History, limits: Limits) -> str:
    """Find a policy that hardly varies its answers although its reward no longer rises."""
    count = limits.collapse_steps
    now, start = history.last("entropy", count), history.start("entropy", count)
    if not now or not start or max(now) >= max(median(start) * limits.entropy_factor, limits.entropy):
        return ""
    reward, before, highest = (
        history.last("reward", count),
        history.before("reward", count, last=count),
        history.last("reward_max", 1),
    )
    if (
        not reward
        or not before
        or fmean(reward) > fmean(before)
        or fmean(reward) >= limits.solved * (highest or [1.0])[0]
    ):
        return ""
    return (
        f"the entropy is {now[-1]:.3g}, {median(start):.3g} at the start, and the reward stays at {fmean(reward):.3g}"
    )


def grad_norm_spikes(history: History, limits: Limits) -> str:
    """Find gradients that remain many times larger than before."""
    now, before = history.last("grad_norm", limits.steps), history.before("grad_norm", limits.steps, last=20)
    if (
        not now
        or min(now) <= limits.grad_norm
        or len(before) < 5
        or min(now) <= median(before) * limits.grad_norm_factor
    ):
        return ""
    return f"the gradient norm is {now[-1]:.3g}, {median(before):.3g} in the steps before"


def slow_steps(history: History, limits: Limits) -> str:
    """Find steps that take much longer than before, by more than longer answers explain."""
    now, before = history.last("seconds", limits.steps), history.before("seconds", limits.steps, last=10)
    if not now or len(before) < limits.steps:
        return ""
    usual, longer = median(before), 1.0
    if min(now) <= usual * limits.slower_factor:
        return ""
    lengths, lengths_before = history.last("length", limits.steps), history.before("length", limits.steps, last=10)
    if lengths and lengths_before and median(lengths_before) > 0:
        longer = max(1.0, max(lengths) / median(lengths_before))
    if min(now) <= usual * limits.slower_factor * longer:
        return ""
    return f"steps take {now[-1]:.0f} s, {usual:.0f} s before"


# By the id of the sign: its severity, and what finds it.
SIGNS: Final[dict[str, tuple[str, Callable[[History, Limits], str]]]] = {
    "not-a-number": (ERROR, not_a_number),
    "dead-reward": (ERROR, dead_reward),
    "reward-collapse": (ERROR, reward_collapse),
    "kl-blow-up": (ERROR, kl_blow_up),
    "reward-below-start": (WARNING, reward_below_start),
    "entropy-collapse": (WARNING, entropy_collapse),
    "length-explosion": (WARNING, length_explosion),
    "length-collapse": (WARNING, length_collapse),
    "truncated": (WARNING, truncated),
    "generation-mismatch": (WARNING, generation_mismatch),
    "importance-ratio": (WARNING, importance_ratio),
    "grad-norm-spikes": (WARNING, grad_norm_spikes),
    "slow-steps": (WARNING, slow_steps),
}
SEVERITIES: Final = {**{name: severity for name, (severity, _) in SIGNS.items()}, STALLED: ERROR}


class Judge:
    """Judge a run's steps one by one."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits, self.history = limits or Limits(), History()
        self.active: set[str] = set()
        # Whether a step had a validation: the history forgets it.
        self.validated = False

    def add(self, step: Step) -> list[Sign]:
        """Add a step; return the signs that it shows but the previous step did not."""
        self.history.add(step)
        self.validated |= VALIDATION in step.phases
        found = {name: check(self.history, self.limits) for name, (_, check) in SIGNS.items()}
        shown = {name for name, what in found.items() if what}
        new = [Sign(name, SEVERITIES[name], step.number, found[name]) for name in found if name in shown - self.active]
        self.active = shown
        return new

    def silent(self, seconds: float) -> Sign | None:
        """Return the sign of a run that has printed nothing about its steps for `seconds` seconds, or None.

        Without a complete step there is no time to compare with. A validation or a checkpoint may occur between steps,
        so their longest durations are added to the step time.
        """
        times = self.history.before("seconds", 0)
        if not times:
            return None
        usual = median(times)
        pauses = sum(max(self.history.phase(name), default=0.0) for name in (VALIDATION, CHECKPOINT))
        least = 0.0 if self.validated else self.limits.validation_seconds
        limit = max(self.limits.silent_seconds, least, self.limits.silent_factor * (usual + pauses))
        if seconds <= limit:
            return None
        what = f"no step for {seconds:.0f} s; a step took {usual:.0f} s"
        return Sign(STALLED, SEVERITIES[STALLED], self.history.steps[-1].number, what)
