"""Show a training run line by line: plain, coloured with a reward curve on a terminal, or as JSON."""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

from rich.text import Text

from grpo.cli import output
from grpo.cli.watching import lines
from grpo.report import text as report_text
from grpo.runlog.shared import Event, Step
from grpo.terminal import console
from grpo.terminal.watched import is_watched
from postrender import masking, visible
from postrender.finding import Finding

_SHOWN_STEPS: Final = 24


class Screen:
    """Write events and findings to stdout as they come."""

    def __init__(self, form: str) -> None:
        self._json = form == "json"
        self._watched = is_watched(sys.stdout)
        self._rewards: deque[float] = deque(maxlen=_SHOWN_STEPS)

    def show(self, event: Event) -> None:
        """Write an event's line; a phase has one only in JSON."""
        if self._json:
            self._write(f"{lines.record(event)}\n")
        elif line := lines.text(event):
            if self._watched:
                self._draw(line, event)
            else:
                self._write(visible.lines([line]))

    def tell(self, finding: Finding) -> None:
        """Write a finding: where, what, why, and what to do."""
        if self._json:
            self._write(f"{lines.record(finding)}\n")
        else:
            output.write(masking.text(report_text.block(finding)))

    def flush(self) -> None:
        """Flush stdout, so that the reader of a pipe sees what was written."""
        sys.stdout.flush()

    def _draw(self, line: str, event: Event) -> None:
        drawn = Text(visible.lines([line]).rstrip(), "bold" if not isinstance(event, Step) else "")
        if isinstance(event, Step) and event.reward is not None:
            self._rewards.append(event.reward)
            drawn.append(f"  {lines.sparkline(list(self._rewards))}", "cyan")
        console.create(sys.stdout).print(drawn, soft_wrap=True)

    def _write(self, text: str) -> None:
        sys.stdout.write(masking.text(text))
