"""Read the steps of a run from its directory: from TensorBoard's files, else from the samples of each step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import samples
from postrender.errors import InputError, Location
from postrender.runlog import settled, tensorboard
from steps import Event, Step

Place = tuple[Event, Location]
# A file of samples and its size, by which a second look sees whether it has changed.
File = tuple[Path, int]


def read(directory: str, *, follow: bool) -> Iterator[list[Place]]:
    """Yield the events of a run with their places.

    TensorBoard's files have all measures; the samples, which every run has, only rewards. Raises InputError for a
    directory without steps.
    """
    found = tensorboard.folders(directory)
    if found and tensorboard.is_installed():
        for events in tensorboard.read(found, follow=follow):
            yield [(event, Location(directory)) for event in events]
        return
    if not follow and not _files(directory):
        fix = "pip install 'grpo-charts[report]' reads its TensorBoard files" if found else "name <mountPath>/runs/NAME"
        raise InputError("the directory has no steps of a training", at=Location(directory), fix=fix)
    for new in settled.items(lambda: _files(directory), follow=follow):
        steps = ((_step(number, path), Location(str(path))) for number, (path, _) in new)
        yield [(step, at) for step, at in steps if step is not None]


def _files(directory: str) -> Mapping[int, File]:
    try:
        return {number: (path, os.stat(path).st_size) for number, path in samples.steps_of(Path(directory)).items()}
    except (samples.SampleError, FileNotFoundError):
        return {}


def _step(number: int, path: Path) -> Step | None:
    """Return a step with its rewards; None if no sample of its file can be read."""
    rewards = samples.Rewards()
    for _ in samples.samples(path, rewards):
        pass
    if not rewards.count:
        return None
    return Step(number, reward=rewards.mean, reward_min=rewards.low, reward_max=rewards.high)
