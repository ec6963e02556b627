"""Read the event files of TensorBoard, which both frameworks can write; the extra `report` installs the library."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from postrender.errors import InstallationError
from postrender.runlog import scalars
from steps import Event


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
    return scalars.events(lambda: _rows(paths), paths[-1], follow=follow)


def folders(directory: str) -> list[str]:
    """Return the folders below a directory that have event files, in the order of their names' numbers."""
    found = [folder for folder, _, names in os.walk(directory) if any(map(is_events, names))]
    return sorted(found, key=lambda folder: (len(folder), folder))


def is_events(path: str) -> bool:
    """Return whether a path is that of an event file, by its name."""
    return os.path.basename(path).startswith("events.out.tfevents.")


def _rows(paths: Sequence[str]) -> scalars.Rows:
    """Return the scalars of each step by their tags."""
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415 (as above)
        SCALARS,
        EventAccumulator,
    )

    rows: scalars.Rows = {}
    for path in paths:
        # 0 keeps every value, where the default keeps ten thousand.
        events = EventAccumulator(path, size_guidance={SCALARS: 0})
        events.Reload()
        for tag in events.Tags()[SCALARS]:
            for scalar in events.Scalars(tag):
                rows.setdefault(scalar.step, {})[tag] = scalar.value
    return rows
