"""Read the event files of TensorBoard, which both frameworks can write; the extra `report` installs the library."""

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
    """Yield the events of files or folders, the oldest start of the trainer first; a later one wins.

    Raises InstallationError without the library, and InputError for files without steps.
    """
    if not is_installed():
        raise InstallationError("event files of TensorBoard need a library", fix="pip install 'grpo-charts[report]'")
    # Each one reads on where it has stopped.
    files = [_open(path) for path in paths]
    return scalars.events(lambda: _rows(files), paths[-1], follow=follow)


def folders(directory: str) -> list[str]:
    """Return the folders below a directory that have event files, in the order of their names' numbers."""
    found = [folder for folder, _, names in os.walk(directory) if any(map(is_events, names))]
    return sorted(found, key=lambda folder: (len(folder), folder))


def is_events(path: str) -> bool:
    """Return whether a path is that of an event file, by its name."""
    return os.path.basename(path).startswith("events.out.tfevents.")


def _open(path: str) -> EventAccumulator:
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415 (as above)
        SCALARS,
        EventAccumulator,
    )

    # 0 keeps every value, where the default keeps ten thousand.
    return EventAccumulator(path, size_guidance={SCALARS: 0})


def _rows(files: Sequence[EventAccumulator]) -> scalars.Rows:
    """Return the scalars of each step by their tags; what the files have got since the last look is read."""
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
    """Give each step the highest readings between the end of the step before and its own."""
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
