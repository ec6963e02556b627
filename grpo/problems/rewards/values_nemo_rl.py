"""The reward: how answers are checked, and by how many processes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import one_of, within
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import environments
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grpo.values.config import RunConfig

_GYM: Final = "env.should_use_nemo_gym"
_PENALTIES: Final = tuple(
    f"reward_penalties.penalize_{name}"
    for name in ("duplicated_reasoning", "empty_final_answer", "unwanted_tokens", "malformed_think_tag")
)
_KEYS: Final = ("num_workers", "stop_strings", "verifier_type", "math_verify_impl")
_SCALING: Final = "grpo.reward_scaling"
# The lowest and the highest score of the built-in rewards, as in jobs/rewards/reward_builtins.py.
SCORES: Final = {"format": (0, 1), "exact_answer": (0, 1), "length": (-1, 0)}
# Weights such as 0.7, 0.2 and 0.1 have a sum near 1.
_ROUNDING: Final = 1e-6
_REWARD: Final = "the run fails at the first reward, after the model is loaded and a whole batch is generated"
# The environments that divide their answers among processes.
_WITH_WORKERS: Final = ("code", "code_jaccard", "math", "math_default", "math_multi_reward", "vlm")
_IMPLEMENTATIONS: Final = {
    "math": ("hf_math_verify", "dapo_math_verify"),
    "math_default": ("hf_math_verify", "dapo_math_verify"),
    "math_multi_reward": ("hf_math_verify",),
}
_MULTIPLE_CHOICE: Final = ("english_multichoice", "multilingual_multichoice")
_VERIFIERS: Final = {
    "math": ("math", *_MULTIPLE_CHOICE),
    "math_default": ("math", *_MULTIPLE_CHOICE),
    "math_multi_reward": ("math",),
}


def _started(run: RunConfig) -> list[str]:
    """Return the environments that a run starts; v0.4.0 always starts the math environment."""
    return sorted(environments(run)) if run.since("v0.5.0") else ["math"]


def _misnamed(run: RunConfig, path: str, words: Sequence[str]) -> Iterator[Finding]:
    what = one_of(path, words)(run)
    if what:
        yield Finding(what, keys=[path])


@TOPIC.problem(
    "env.math.math_verify_impl env",
    fails=Fails.SILENT,
    source="nemo_rl/environments/math_environment.py:112 at v0.7.0",
    logs="Expected 'hf_math_verify' or 'dapo_math_verify",
)
def math_verifier(run: RunConfig) -> Iterator[Finding]:
    """this version does not have the configured verifier of math answers

    Why: NeMo RL catches each answer's error and assigns the reward 0, for the entire run
    Fix: set hf_math_verify, or dapo_math_verify for answers that end in Answer: NUMBER
    """
    for name in _started(run):
        if name in _IMPLEMENTATIONS and run.at(f"env.{name}.verifier_type", "math") == "math":
            yield from _misnamed(run, f"env.{name}.math_verify_impl", _IMPLEMENTATIONS[name])


@TOPIC.problem("env.math env", fails=Fails.SILENT, source="nemo_rl/environments/math_environment.py:44 at v0.7.0")
def environment_key(run: RunConfig) -> Iterator[Finding]:
    """the math environment has a key that it does not read

    Why: NeMo RL ignores the key, and the run uses the default
    Fix: correct the name or remove the key
    """
    for name in _IMPLEMENTATIONS:
        section = run.at(f"env.{name}") if run.given_has(f"env.{name}") else None
        for key in section if isinstance(section, dict) else ():
            if key not in _KEYS:
                close = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.5)
                fix = f"did you mean {close[0]}?" if close else f"one of {', '.join(_KEYS)}"
                what = f"env.{name}.{key} is not a key that the environment reads"
                yield Finding(what, keys=[f"env.{name}.{key}"], fix=fix)


@TOPIC.problem(
    "env.math.verifier_type env",
    why=_REWARD,
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/environments/math_environment.py:357 at v0.7.0",
    logs="must be a string but was",
)
def verifier_type(run: RunConfig) -> Iterator[Finding]:
    """an environment's verifier_type does not exist in this version

    Fix: remove the key for math, or set english_multichoice or multilingual_multichoice
    """
    for name in _started(run):
        if name in _VERIFIERS:
            yield from _misnamed(run, f"env.{name}.verifier_type", _VERIFIERS[name])


@TOPIC.problem(
    "env.math.num_workers env",
    why=_REWARD,
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/environments/utils.py:95 at v0.7.0",
)
def environment_workers(run: RunConfig) -> Iterator[Finding]:
    """an environment has no processes that check answers

    Fix: set the number of processes, for instance 8
    """
    for name in _started(run):
        path = f"env.{name}.num_workers"
        try:
            what = within(path, least=1)(run) if name in _WITH_WORKERS else None
        except UnknownError:
            continue
        if what:
            yield Finding(what, keys=[path])


@TOPIC.problem(
    f"{_SCALING}.source_min {_SCALING}.source_max {_SCALING}.enabled =job.rewards",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:1418 at v0.7.0",
    severity=WARNING,
)
def reward_scaling_clips(run: RunConfig) -> Iterator[Finding]:
    """reward_scaling clips scores that job.rewards can reach

    Why: a score outside the range is clipped to its bound, so the rewards that lead there have no effect
    Fix: set the range to the lowest and the highest possible sum of job.rewards
    """
    bounds = _possible(run) if run.on(f"{_SCALING}.enabled") else None
    if bounds is None:
        return
    low, high = bounds
    least, most = (run.number(f"{_SCALING}.source_{end}") for end in ("min", "max"))
    wrong = {"min": low} if low < least - _ROUNDING else {}
    wrong |= {"max": high} if high > most + _ROUNDING else {}
    if wrong and least < most:
        what = f"job.rewards sum up to {low:g} to {high:g}, and reward_scaling clips to {least:g} to {most:g}"
        fix = f"write {' and '.join(f'source_{end}: {value:g}' for end, value in wrong.items())}"
        keys = [f"{_SCALING}.{name}" for name in (*(f"source_{end}" for end in wrong), "enabled")]
        yield Finding(what, keys=keys, fix=fix)


@TOPIC.problem(
    f"{' '.join(_PENALTIES)} {_GYM}",
    fails=Fails.LATER,
    source="nemo_rl/algorithms/grpo.py:1981 at 7ea279ab",
    since="v0.8.0",
)
def penalties_without_gym(run: RunConfig) -> Iterator[Finding]:
    """a NeMo-Gym reward penalty is on, but NeMo-Gym is off

    Fix: set it to false; job.rewards can deduct points for an answer's format
    """
    for key in _PENALTIES:
        if run.on(key) and not run.on(_GYM):
            what = f"{key} is on, and env.should_use_nemo_gym is off"
            yield Finding(what, keys=[key], proposed={key: False})


def _possible(run: RunConfig) -> tuple[float, float] | None:
    """Return the lowest and the highest sum of job.rewards; None if a reward's range is unknown."""
    rewards = [mapping(entry) for entry in mapping(run.value("job.rewards")).values() if entry]
    low, high = 0.0, 0.0
    for entry in rewards:
        weight, bounds = entry.get("weight"), SCORES.get(str(entry.get("builtin")))
        if bounds is None or not isinstance(weight, (int, float)):
            return None
        low, high = low + weight * bounds[0], high + weight * bounds[1]
    return (low, high) if rewards else None
