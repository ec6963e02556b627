"""Read TensorBoard event files, which both frameworks can write; the extra `report` installs the library."""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from grpo.runlog import scalars
from postrender.errors import InstallationError
from steps import Event

if TYPE_CHECKING:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def is_installed() -> bool:
    """Return whether the library can be imported."""
    try:
        import tensorboard  # noqa: F401, PLC0415 (an extra: a second to import)
    except ImportError:
        return False
    return True


def read(paths: Sequence[str], *, follow: bool) -> Iterator[list[Event]]:
    """Yield the events of files or folders, the trainer's oldest start first; a later start takes precedence.

    Raises InstallationError if the library is missing, and InputError if the files have no steps.
    """
    if not is_installed():
        raise InstallationError("event files of TensorBoard need a library", fix="pip install 'grpo-charts[report]'")
    # Each one reads on where it has stopped.
    files = [_open(path) for path in paths]
    return scalars.events(lambda: _rows(files), paths[-1], follow=follow)


def folders(directory: str) -> list[str]:
    """Return the folders below a directory that contain event files, ordered by the numbers in their names."""
    found = [folder for folder, _, names in os.walk(directory) if any(map(is_events, names))]
    return sorted(found, key=lambda folder: (len(folder), folder))


def is_events(path: str) -> bool:
    """Return whether a path is an event file's, by its name."""
    return os.path.basename(path).startswith("events.out.tfevents.")


def _open(path: str) -> EventAccumulator:
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415 (as above)
        SCALARS,
        EventAccumulator,
    )

    # 0 keeps every value, where the default keeps ten thousand.
    return EventAccumulator(path, size_guidance={SCALARS: 0})


def _rows(files: Sequence[EventAccumulator]) -> scalars.Rows:
    """Return each step's scalars by tag, after reading what was added to the files since the last call."""
    rows: scalars.Rows = {}
    for file in files:
        file.Reload()
        tags = file.Tags()["scalars"]
        # The number of a reading of the monitor is a second, and not a step.
        for tag in tags:
            if not tag.startswith(scalars.MONITOR):
                for scalar in file.Scalars(tag):
                    rows.setdefault(scalar.step, {})[tag] = scalar.value
        if scalars.LOSS in tags:
            _add_memory(rows, file, [tag for tag in tags if scalars.is_gpu_memory(tag)])
    return rows


def _add_memory(rows: scalars.Rows, file: EventAccumulator, tags: Sequence[str]) -> None:
    """Give each step its highest readings: those between the end of the previous step and its own end."""
    ends = file.Scalars(scalars.LOSS)
    moments = [end.wall_time for end in ends]
    highest: dict[int, dict[str, float]] = {end.step: {} for end in ends}
    for tag in tags:
        for reading in file.Scalars(tag):
            # One after the last end is of a step that is not complete.
            index = bisect.bisect_left(moments, reading.wall_time)
            if index < len(ends):
                found = highest[ends[index].step]
                found[tag] = max(found.get(tag, 0.0), reading.value)
    for step, found in highest.items():
        rows[step] = {tag: value for tag, value in rows[step].items() if not scalars.is_gpu_memory(tag)} | found
