"""Read verl's output and its file log.

Sources: verl/utils/logger/aggregate_logger.py, verl/utils/tracking.py, verl/trainer/ppo/metric_utils.py and
ray_trainer.py at v0.5.0 to v0.9.0. v0.2 and older print `timing/` and count steps from 0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import steps
from log_lines import number, words
from steps import Event, Phase, Step, Validation

_STEP: Final = re.compile(r"step:(\d{1,18}) - ")
# The other lines that are read, and the phase that they begin.
_BEGINS: Final = {
    "local_global_step_folder: ": steps.CHECKPOINT,
    "test_gen_batch meta info: ": steps.VALIDATION,
    "Total training steps: ": steps.LOADING,
    "Final validation metrics: ": steps.ENDED,
}
_MARK: Final = re.compile("|".join(("step:\\d", *map(re.escape, _BEGINS))))
# Of each measure, the keys of all versions; the first one that is there counts.
_MEASURES: Final = {
    "reward": ("critic/score/mean", "critic/rewards/mean"),
    "reward_min": ("critic/score/min", "critic/rewards/min"),
    "reward_max": ("critic/score/max", "critic/rewards/max"),
    "length": ("response_length/mean",),
    "truncated": ("response_length/clip_ratio",),
    "loss": ("actor/pg_loss",),
    "grad_norm": ("actor/grad_norm",),
    "entropy": ("actor/entropy", "actor/entropy_loss"),
    "generation_kl": ("rollout_corr/kl",),
    "importance_ratio": ("rollout_corr/rollout_is_mean",),
    "seconds": ("timing_s/step", "timing/step", "perf/time_per_step", "time_per_step"),
    "tokens_per_second_per_gpu": ("perf/throughput", "Tokens/Sec/GPU"),
    "memory_gib": ("perf/max_memory_reserved_gb", "actor/perf/max_memory_reserved_gb"),
}
# v0.7 prints a KL of 0 where none is computed: the coefficient says whether it is.
_KL: Final = {
    "actor/kl_loss": "actor/kl_coef",
    "actor/reward_kl_penalty": "actor/reward_kl_penalty_coeff",
    "critic/kl": "critic/kl_coeff",
}
_TIMERS: Final = {
    "gen": steps.GENERATION,
    "old_log_prob": steps.LOGPROBS,
    "update_actor": steps.TRAINING,
    "update_weights": steps.REFIT,
    "reward": steps.REWARDS,
    "save_checkpoint": steps.CHECKPOINT,
    "testing": steps.VALIDATION,
}
_TIMES: Final = ("timing_s/", "timing/")
# The mean over the answers to a prompt, not the best or the most frequent one; then the key of v0.2.
_TEST_SCORE: Final = re.compile(r"val-core/.*/mean@\d+$|val/test_score/.+")
_LONGEST: Final = "response_length/max"
_KEYS: Final = {*(key for keys in _MEASURES.values() for key in keys), *_KL, *_KL.values(), _LONGEST}
_SECTIONS: Final = (*_TIMES, "val-core/", "val/")


class Verl:
    """Turn lines into events; each line `step:N - …` has all measures of a step, of a validation, or of both."""

    def __init__(self) -> None:
        self.shift = 0
        self.longest = 0.0

    def read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Event]:
        """Yield the events of complete lines."""
        search = _MARK.search
        for at, line in lines:
            if search(line):
                yield from self._line(at, words(line))

    def end(self) -> Iterator[Event]:
        """Yield nothing, because a line is either complete or useless."""
        yield from ()

    def _line(self, at: int, line: str) -> Iterator[Event]:
        if match := _STEP.match(line):
            yield from self.metrics(at, int(match[1]), pairs(line))
            return
        for start, phase in _BEGINS.items():
            # verl prints some of them as a text in quotes, broken into lines.
            if line.lstrip("(\"'").startswith(start):
                yield Phase(phase)

    def metrics(self, at: int, step: int, found: Mapping[str, float]) -> Iterator[Event]:
        """Yield the events for a step's measures: a validation, a step, or both."""
        trains = any(key in found for key in _MEASURES["reward"]) or "actor/grad_norm" in found
        if trains and step == 0:
            self.shift = 1
        step += self.shift
        scores = [value for key, value in found.items() if key[:3] == "val" and _TEST_SCORE.match(key)]
        if scores:
            seconds = found.get("timing_s/testing", found.get("timing/testing"))
            yield Validation(step, sum(scores) / len(scores), None, seconds)
        if trains:
            yield self._complete(_step(at, step, found), found.get(_LONGEST))
            yield Phase(steps.STEP, step + 1)

    def _complete(self, step: Step, longest: float | None) -> Step:
        """Correct the share of truncated answers: v0.9.1 counts all answers as long as their step's longest."""
        if step.truncated is not None and longest is not None:
            self.longest = max(self.longest, longest)
            if longest < self.longest:
                step.truncated = 0.0
        return step


def pairs(line: str) -> dict[str, float]:
    """Return the relevant measures of a line `step:N - key:value - …`; a key may contain colons and spaces."""
    found = {}
    for part in line.split(" - ")[1:]:
        key, _, text = part.rpartition(":")
        # A line has a hundred measures, most of which are not read.
        if (key in _KEYS or key.startswith(_SECTIONS)) and (value := number(text)) is not None:
            found[key] = value
    return found


def _step(at: int, count: int, found: Mapping[str, float]) -> Step:
    step = Step(count, at)
    for name, keys in _MEASURES.items():
        for key in keys:
            if key in found:
                setattr(step, name, found[key])
                break
    step.kl = next((found[key] for key, coefficient in _KL.items() if key in found and coefficient in found), None)
    for key, value in found.items():
        if key.startswith(_TIMES):
            timer = key.partition("/")[2]
            # What is measured within a timer stands below it, tokens and counts too.
            if timer != "step" and "/" not in timer:
                step.phases[_TIMERS.get(timer, timer)] = value
    if step.seconds is None and step.phases:
        step.seconds = sum(step.phases.values())
    return step


class VerlFile:
    """Turn the lines of verl's logger `file` into events: one JSON object per step."""

    def __init__(self) -> None:
        self.verl = Verl()

    def read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Event]:
        """Yield the events of complete lines; an incomplete or damaged line has none."""
        for at, line in lines:
            row = record(line)
            if row is not None:
                yield from self.verl.metrics(at, int(row["step"]), _numbers(row["data"]))

    def end(self) -> Iterator[Event]:
        """Yield nothing, because a line is either complete or useless."""
        yield from ()


def record(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line of the file log, or None."""
    try:
        row = json.loads(line, parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    is_one = isinstance(row, dict) and isinstance(row.get("step"), int) and isinstance(row.get("data"), dict)
    return row if is_one else None


def _integer(text: str) -> int:
    """Read a 64-bit integer, which is what verl writes; raise ValueError if it is longer."""
    if len(text) > 20:
        raise ValueError(text)
    return int(text)


def _numbers(data: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers; the file has null for NaN and infinite measures, because orjson writes it."""
    given = {key: math.nan if value is None else value for key, value in data.items()}
    return {key: float(value) for key, value in given.items() if isinstance(value, int | float)}
