"""The events in what trackers store: each step's numbers by name, under the frameworks' names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from grpo.runlog import polling
from nemo_rl_log import TIMERS
from postrender.errors import InputError, Location
from steps import Event, Step, Validation
from verl_log import Verl

# The names of NeMo RL's metrics: nemo_rl/algorithms/grpo.py, its loss functions, and nemo_rl/experience/rollouts.py at
# v0.7.0. All its loggers get the same ones.
_MEASURES: Final = {
    "train/reward": "reward",
    "train/loss": "loss",
    "train/grad_norm": "grad_norm",
    "train/approx_entropy": "entropy",
    "train/kl_penalty": "kl",
    "train/gen_kl_error": "generation_kl",
    "train/sampling_importance_ratio": "importance_ratio",
    "train/mean_gen_tokens_per_sample": "length",
    "train/truncation_rate": "truncated",
    "timing/train/total_step_time": "seconds",
    "performance/tokens_per_sec_per_gpu": "tokens_per_second_per_gpu",
}
# What the monitor of the GPUs writes: nemo_rl/utils/logger.py. It divides Ray's MiB by 1024.
MONITOR: Final = "ray/"
_GPU_MEMORY: Final = re.compile(r"ray/node\.\d+\.gpu\.\d+\.mem_gb")
LOSS: Final = "train/loss"
_TIMER: Final = "timing/train/"
_ACCURACY: Final = "validation/accuracy"
_LENGTH: Final = "validation/avg_length"

Rows = dict[int, dict[str, float]]


def events(look: Callable[[], Rows], at: str, *, follow: bool) -> Iterator[list[Event]]:
    """Yield the events of the rows that `look` finds; with `follow`, look again and again.

    Raises InputError if no row is a step.
    """
    verl, any_step = Verl(), False
    for new in polling.items(look, follow=follow):
        found = [event for number, row in new for event in _events(verl, number, row)]
        any_step = any_step or any(isinstance(event, Step) for event in found)
        yield found
    if not any_step:
        fix = "name the file of a GRPO training, or the directory of its run"
        raise InputError("it has no step of NeMo RL's GRPO or of verl", at=Location(at), fix=fix)


def is_gpu_memory(tag: str) -> bool:
    """Return whether a tag is for a GPU's used memory, in GiB."""
    return _GPU_MEMORY.fullmatch(tag) is not None


def _events(verl: Verl, number: int, row: Mapping[str, float]) -> Iterator[Event]:
    if _ACCURACY in row:
        yield Validation(number, row[_ACCURACY], row.get(_LENGTH), row.get("timing/validation/total_validation_time"))
    if LOSS in row:
        yield _step(number, row)
    else:
        yield from verl.metrics(0, number, row)


def _step(number: int, row: Mapping[str, float]) -> Step:
    step = Step(number)
    for tag, name in _MEASURES.items():
        if tag in row:
            setattr(step, name, row[tag])
    step.memory_gib = max((value for tag, value in row.items() if is_gpu_memory(tag)), default=None)
    timers = {tag.removeprefix(_TIMER): value for tag, value in row.items() if tag.startswith(_TIMER)}
    for timer, seconds in sorted(timers.items(), key=lambda item: -item[1]):
        if timer != "total_step_time":
            step.phases.setdefault(TIMERS.get(timer, timer), seconds)
    return step
