"""Read the event files of TensorBoard, which both frameworks can write; the extra `report` installs the library."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nemo_rl_log import TIMERS
from postrender.errors import InputError, InstallationError, Location
from postrender.runlog import settled
from steps import Event, Step, Validation
from verl_log import Verl

# The names of NeMo RL's metrics: nemo_rl/algorithms/grpo.py, its loss functions, and nemo_rl/experience/rollouts.py at
# v0.7.0.
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
_TIMER: Final = "timing/train/"
_ACCURACY: Final = "validation/accuracy"
_LENGTH: Final = "validation/avg_length"

Rows = dict[int, dict[str, float]]


def is_installed() -> bool:
    """Return whether the library can be imported."""
    try:
        import tensorboard  # noqa: F401, PLC0415 (an extra: a second to import)
    except ImportError:
        return False
    return True


def read(paths: Sequence[str], *, follow: bool) -> Iterator[list[Event]]:
    """Yield the events of files or folders, the oldest start of the trainer first; a later one wins.

    Raises InstallationError without the library, and InputError for files without steps.
    """
    if not is_installed():
        raise InstallationError("event files of TensorBoard need a library", fix="pip install 'grpo-charts[report]'")
    verl, any_step = Verl(), False
    for new in settled.items(lambda: _rows(paths), follow=follow):
        found = [event for number, row in new for event in _events(verl, number, row)]
        any_step = any_step or any(isinstance(event, Step) for event in found)
        yield found
    if not any_step:
        fix = "name the event file of a GRPO training, or the directory of its run"
        raise InputError("it has no step of NeMo RL's GRPO or of verl", at=Location(paths[-1]), fix=fix)


def folders(directory: str) -> list[str]:
    """Return the folders below a directory that have event files, in the order of their names' numbers."""
    found = [folder for folder, _, names in os.walk(directory) if any(map(is_events, names))]
    return sorted(found, key=lambda folder: (len(folder), folder))


def is_events(path: str) -> bool:
    """Return whether a path is that of an event file, by its name."""
    return os.path.basename(path).startswith("events.out.tfevents.")


def _rows(paths: Sequence[str]) -> Rows:
    """Return the scalars of each step by their tags."""
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415 (as above)
        SCALARS,
        EventAccumulator,
    )

    rows: Rows = {}
    for path in paths:
        # 0 keeps every value, where the default keeps ten thousand.
        events = EventAccumulator(path, size_guidance={SCALARS: 0})
        events.Reload()
        for tag in events.Tags()[SCALARS]:
            for scalar in events.Scalars(tag):
                rows.setdefault(scalar.step, {})[tag] = scalar.value
    return rows


def _events(verl: Verl, number: int, row: Mapping[str, float]) -> Iterator[Event]:
    if _ACCURACY in row:
        yield Validation(number, row[_ACCURACY], row.get(_LENGTH), row.get("timing/validation/total_validation_time"))
    if "train/loss" in row:
        yield _step(number, row)
    else:
        yield from verl.metrics(0, number, row)


def _step(number: int, row: Mapping[str, float]) -> Step:
    step = Step(number)
    for tag, name in _MEASURES.items():
        if tag in row:
            setattr(step, name, row[tag])
    timers = {tag.removeprefix(_TIMER): value for tag, value in row.items() if tag.startswith(_TIMER)}
    for timer, seconds in sorted(timers.items(), key=lambda item: -item[1]):
        if timer != "total_step_time":
            step.phases.setdefault(TIMERS.get(timer, timer), seconds)
    return step
