"""A run directory's record of the steps: tracker files, the attempts' outputs, samples of each step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import samples
from grpo.runlog import polling, tensorboard, wandb_files
from postrender.errors import InputError, Location
from steps import Event, Step

Place = tuple[Event, Location]
# A file of samples and its size, by which a second look sees whether it has changed.
File = tuple[Path, int]
Tracker = tuple[Callable[..., Iterator[list[Event]]], list[str]]


def outputs(directory: str) -> list[str]:
    """Return the attempts' outputs, the first attempt first; the launcher writes them (jobs/launcher/launch.py)."""
    folder = os.path.join(directory, "attempts")
    attempts = [name for name in os.listdir(folder) if name.isdecimal()] if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name, "output.log") for name in sorted(attempts, key=int)]
    return [path for path in paths if os.path.isfile(path)]


def has_all_measures(directory: str) -> bool:
    """Return whether there are tracker files and the library that reads them; outputs have fewer measures."""
    return _tracker(directory) is not None


def _tracker(directory: str) -> Tracker | None:
    """Return the reader for a tracker's files, and the files."""
    if (folders := tensorboard.folders(directory)) and tensorboard.is_installed():
        return tensorboard.read, folders
    files = wandb_files.files(directory)
    return (wandb_files.read, files) if files else None


def read(directory: str, *, follow: bool) -> Iterator[list[Place]]:
    """Yield a run's events with their places: from a tracker's files, else from the samples, which have rewards.

    Raises InputError if the directory has no steps.
    """
    if (tracker := _tracker(directory)) is not None:
        reader, paths = tracker
        for events in reader(paths, follow=follow):
            yield [(event, Location(directory)) for event in events]
        return
    if not follow and not _files(directory):
        unread = tensorboard.folders(directory)
        fix = (
            "pip install 'grpo-charts[report]' reads its TensorBoard files" if unread else "name <mountPath>/runs/NAME"
        )
        raise InputError("the directory has no steps of a training", at=Location(directory), fix=fix)
    for new in polling.items(lambda: _files(directory), follow=follow):
        steps = ((_step(number, path), Location(str(path))) for number, (path, _) in new)
        yield [(step, at) for step, at in steps if step is not None]


def _files(directory: str) -> Mapping[int, File]:
    try:
        return {number: (path, os.stat(path).st_size) for number, path in samples.steps_of(Path(directory)).items()}
    except (samples.SampleError, FileNotFoundError):
        return {}


def _step(number: int, path: Path) -> Step | None:
    """Return a step with its rewards; None if no sample in its file can be read."""
    rewards = samples.Rewards()
    for _ in samples.samples(path, rewards):
        pass
    if not rewards.count:
        return None
    return Step(number, reward=rewards.mean, reward_min=rewards.low, reward_max=rewards.high)
