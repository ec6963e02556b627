"""Combine the rewards in job.rewards: one definition for every framework and version.

A response's score is the weighted sum of its rewards' scores; weights are not normalized. A response is correct
if no reward returns correct = False. A reward that raises an exception or takes too long scores 0.0,
and the response is not correct. A weight is more than 0: to penalize something, return a negative score.

<directory>/rewards.json names the rewards: {"exact": {"weight": 0.8, "kwargs": {}, "builtin": "exact_answer"},
"mine": {"weight": 1, "kwargs": {}, "file": "mine.py"}}; <directory>/rewards/mine.py defines
`reward(ground_truth: str, response: str, **kwargs) -> tuple[float, bool | None]` and optionally
`BOUNDS = (lowest, highest)`, and `SECONDS = 600` if a judgement may take longer than 60 s. If it defines no
`reward`, verl's `compute_score(data_source, solution_str, ground_truth, extra_info)` is used unchanged, which
returns a number or a map with a score. `python3 rewards.py` checks its own directory.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import numbers
import os
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reward_builtins import BUILTINS
from reward_limits import OutOfTimeError, within

SECONDS = 60.0
VERL = ("data_source", "solution_str", "ground_truth", "extra_info")
HERE = Path(__file__).resolve().parent


class RewardError(Exception):
    """A reward cannot be used; the message says which one and what to do."""


class Reward(NamedTuple):
    """A reward with its arguments bound; bounds and judges are None if unknown.

    The function takes the ground truth and the response; a verl function also takes data_source and extra_info.
    """

    name: str
    weight: float
    function: Callable[..., Any]
    bounds: tuple[float, float] | None = None
    judges: bool | None = None
    of_verl: bool = False


class Result(NamedTuple):
    """A response's result: the weighted sum, whether the response is correct, and each reward's score."""

    score: float
    correct: bool
    parts: dict[str, float]


def say(text: str) -> None:
    print("grpo: " + text.encode("ascii", "backslashreplace").decode(), flush=True)


def shorten(text: object) -> str:
    return repr(text)[:200]


def where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""


def checked(verdict: Any) -> tuple[float, bool | None]:
    """Check that a reward returned a finite number and a flag; return both."""
    try:
        score, flag = verdict
        score = float(score)
        if isinstance(flag, str):
            raise TypeError("as a truth value, every text is true")
    except (TypeError, ValueError):
        raise TypeError(f"expected (score, correct), got {shorten(verdict)}") from None
    if not math.isfinite(score):
        raise ValueError(f"expected a finite score, got {score}")
    return score, None if flag is None else bool(flag)


def scored(result: Any) -> tuple[float, bool | None]:
    """Check what compute_score returned; without `acc`, a response with a score above 0 is correct."""
    known = result if isinstance(result, dict) else {"score": result}
    try:
        score = float(known["score"])
    except (KeyError, TypeError, ValueError):
        raise TypeError(f"expected a number or a dictionary with score, got {shorten(result)}") from None
    return checked((score, known.get("acc", score > 0)))


class Combination:
    """Several rewards combined into one. Calls may come from several threads."""

    def __init__(self, rewards: Iterable[Reward], tell: Callable[[str], None] = say) -> None:
        self.rewards, self.tell = tuple(rewards), tell
        self.failures, self.lock = Counter[str](), threading.Lock()

    def __call__(self, ground_truth: Any, response: Any, *more: Any) -> Result:
        """Judge a response; `more` is data_source and extra_info, if they are known."""
        parts, correct = {}, True
        for reward in self.rewards:
            score, flag = self.judge(reward, ground_truth, response, *more)
            parts[reward.name] = score
            correct = correct and flag is not False
        # fsum rounds once, so the order of the rewards does not matter.
        return Result(math.fsum(reward.weight * parts[reward.name] for reward in self.rewards), correct, parts)

    def judge(
        self, reward: Reward, ground_truth: Any, response: Any, source: Any = "", extra: Any = None
    ) -> tuple[float, bool | None]:
        try:
            if not isinstance(response, str):
                raise TypeError(f"expected a text as response, got {type(response).__name__}")
            if reward.of_verl:
                return scored(reward.function(ground_truth, response, source, {} if extra is None else extra))
            # Data sets contain numbers too; a list or a missing value cannot be compared.
            if isinstance(ground_truth, bool) or not isinstance(ground_truth, (str, numbers.Real)):
                raise TypeError(f"expected a text as ground truth, got {type(ground_truth).__name__}")
            return checked(reward.function(str(ground_truth), response))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the timeouts of some libraries are not Exceptions
            self.report(reward.name, error, f"ground truth {shorten(ground_truth)}, response {shorten(response)}")
            return 0.0, False

    def report(self, name: str, error: BaseException, example: str) -> None:
        """Print a reward's 1st, 10th, 100th … failure, not a line for every response."""
        with self.lock:
            self.failures[name] += 1
            count = self.failures[name]
        if re.fullmatch("10*", str(count)):
            times = "once" if count == 1 else f"{count} times in this process"
            cause = f"{type(error).__name__}: {str(error)[:300]}{where(error)}"
            self.tell(f"reward {name} failed {times} and scored 0.0 instead; the last time: {cause}; {example}")

    def bounds(self) -> tuple[float, float] | None:
        """Return the lowest and the highest possible score; None if a reward's bounds are unknown."""
        known = [(reward.weight, reward.bounds) for reward in self.rewards if reward.bounds]
        if len(known) < len(self.rewards):
            return None
        return math.fsum(w * low for w, (low, _) in known), math.fsum(w * high for w, (_, high) in known)

    def describe(self) -> list[str]:
        lines = []
        for name, weight, _, bounds, *_ in self.rewards:
            span = f"{bounds[0]:g} to {bounds[1]:g}" if bounds else "unknown, its file has no BOUNDS"
            lines.append(f"reward {name}: weight {weight:g}, score {span}")
        total = self.bounds()
        span = f"{total[0]:g} to {total[1]:g}" if total else "unknown"
        lines.append(f"score of a response: {span}, the weighted sum of {len(self.rewards)} rewards")
        if all(reward.judges is False for reward in self.rewards):
            lines.append("warning: no reward judges the answer, so every response will count as correct")
        return lines


class Tally:
    """Mean scores over many responses, for one log line."""

    def __init__(self) -> None:
        self.count, self.sums = 0, dict[str, float]()

    def add(self, results: Iterable[Result]) -> None:
        for result in results:
            self.count += 1
            named = {f"reward {name}": score for name, score in result.parts.items()}
            for name, value in {"score": result.score, "correct": result.correct, **named}.items():
                self.sums[name] = self.sums.get(name, 0.0) + value

    def line(self) -> str:
        """Return the line and reset the sums."""
        means = ", ".join(f"{name} {total / self.count:.4f}" for name, total in self.sums.items())
        text = f"{self.count} responses: {means}"
        self.count, self.sums = 0, {}
        return text


def load_file(path: Path) -> Any:
    """Import a reward file under a unique module name."""
    spec = importlib.util.spec_from_file_location(f"grpo_reward_{path.stem.replace('-', '_')}", path)
    if spec is None or spec.loader is None:
        raise RewardError(f"{path.name} must be a Python file whose name ends with .py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look up a class's module there.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError:
        raise RewardError(f"{path} does not exist: it must be on a volume that every node mounts") from None
    except SyntaxError as error:
        raise RewardError(f"{path.name}:{error.lineno}: {error.msg}") from None
    except Exception as error:
        raise RewardError(f"{path.name} cannot be imported: {type(error).__name__}: {error}{where(error)}") from None
    if not callable(getattr(module, "reward", getattr(module, "compute_score", None))):
        raise RewardError(f"{path.name} defines no function reward(ground_truth, response, **kwargs) or compute_score")
    return module


def as_reward(name: str, score: Callable[..., Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Wrap verl's function so that it takes the texts first; reject one that cannot be called with one response."""
    if inspect.iscoroutinefunction(score):
        raise RewardError(f"reward {name}: compute_score is async, and it is called without await: write def")
    if {*VERL[1:3]} & {*kwargs}:
        raise RewardError(f"reward {name}: kwargs give solution_str or ground_truth, which come from the run")
    if "solution_strs" in inspect.signature(score).parameters:
        raise RewardError(f"reward {name}: compute_score takes a batch, and it is called with one solution_str")

    def reward(ground_truth: Any, response: str, data_source: Any = "", extra_info: Any = None) -> Any:
        given = {"data_source": data_source, "solution_str": response, "ground_truth": ground_truth}
        return score(**{**given, "extra_info": extra_info, **kwargs})

    inspect.signature(score).bind(**dict.fromkeys(VERL), **{key: kwargs[key] for key in kwargs if key not in VERL})
    return reward


def bounds_of(module: Any, name: str) -> tuple[float, float] | None:
    bounds = getattr(module, "BOUNDS", None)
    if bounds is None:
        return None
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not low <= high:
        raise RewardError(f"reward {name}: BOUNDS must be two numbers (lowest, highest), not {shorten(bounds)}")
    return low, high


def seconds_of(module: Any, name: str) -> float:
    seconds: Any = getattr(module, "SECONDS", SECONDS)
    if type(seconds) not in (int, float) or not 0 < seconds < threading.TIMEOUT_MAX:
        raise RewardError(f"reward {name}: SECONDS must be a number more than 0, not {shorten(seconds)}")
    return float(seconds)


def build(name: str, entry: dict[str, Any], directory: Path) -> Reward:
    weight: Any = entry.get("weight")
    kwargs, builtin, file = entry.get("kwargs") or {}, entry.get("builtin"), entry.get("file")
    if type(weight) not in (int, float) or not 0 < weight < math.inf:
        raise RewardError(f"reward {name}: weight must be a number more than 0, not {shorten(weight)}")
    if (builtin is None) == (file is None):
        raise RewardError(f"reward {name}: set either builtin ({', '.join(BUILTINS)}) or file")
    of_verl = False
    if file is not None:
        module = load_file(directory / "rewards" / str(file))
        of_verl = not hasattr(module, "reward")
        function = module.compute_score if of_verl else module.reward
        bounds, judges = bounds_of(module, name), None
    elif builtin in BUILTINS:
        function, bounds, judges = BUILTINS[builtin]
    else:
        raise RewardError(
            f"reward {name}: there is no builtin {shorten(builtin)}, expected one of {', '.join(BUILTINS)}"
        )
    try:
        if of_verl:
            function, kwargs = as_reward(name, function, kwargs), {}
        inspect.signature(function).bind("", "", **kwargs)
        if builtin:
            # Report an invalid pattern or a limit of 0 now, not for every response.
            function("0", "0", **kwargs)
    except (TypeError, ValueError, re.error, OutOfTimeError) as error:
        raise RewardError(f"reward {name}: kwargs {json.dumps(kwargs)}: {error}") from None
    if file is not None:
        limit, judge = seconds_of(module, name), partial(function, **kwargs)
        return Reward(name, weight, partial(within, limit, judge), bounds, judges, of_verl)
    return Reward(name, weight, lambda truth, response: function(truth, response, **kwargs), bounds, judges)


def load(directory: Path = HERE, tell: Callable[[str], None] = say) -> Combination:
    """Return the rewards named in <directory>/rewards.json; raise RewardError if one cannot be used."""
    path = directory / "rewards.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RewardError(f"{path} cannot be read: {error}") from None
    if not isinstance(entries, dict) or not entries:
        raise RewardError(f"{path} names no reward")
    for name, entry in entries.items():
        if not re.fullmatch("[A-Za-z][A-Za-z0-9_-]{0,39}", name) or not isinstance(entry, dict):
            raise RewardError(
                f"{path}: {shorten(name)} must be a name of letters, digits, - and _, and its value a map"
            )
    return Combination([build(name, entry, directory) for name, entry in entries.items()], tell)


def main() -> int:
    try:
        for line in load().describe():
            say(line)
    except RewardError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
