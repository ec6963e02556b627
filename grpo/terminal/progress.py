"""Show a long command's progress on a terminal; a pipe or a log gets nothing."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from grpo.terminal.watched import is_watched

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

# A shorter command needs no bar.
_AFTER_SECONDS = 2.0
_BETWEEN_SECONDS = 0.1


class Progress:
    """A progress bar on stderr that appears after two seconds and disappears at the end; `what` names the items.

    Use it in a `with` statement: the bar hides the cursor, and leaving the statement shows it again.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._bars: Bars | None = None
        self._next = time.monotonic() + _AFTER_SECONDS if is_watched(sys.stderr) else float("inf")

    def __enter__(self) -> Self:
        """Return the bar."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar, even after an exception."""
        self.end()

    def step(self, done: int, of: int) -> None:
        """Show that `done` of `of` items are done."""
        if done >= of:
            self.end()
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _BETWEEN_SECONDS
            if self._bars is None:
                self._bars = _bars(self._what)
                self._bars.add_task(self._what, completed=done, total=of)
                self._bars.start()
            self._bars.update(self._bars.task_ids[0], completed=done, refresh=True)

    def end(self) -> None:
        """Remove the bar, if there is one."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


def _bars(what: str) -> Bars:
    # Few commands take so long that they draw one.
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    from grpo.terminal import console  # noqa: PLC0415

    return Progress(
        BarColumn(),
        TextColumn("{task.percentage:3.0f} % of {task.total} " + what),
        console=console.create(sys.stderr),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
