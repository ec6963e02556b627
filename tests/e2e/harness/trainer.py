"""What a test says to the stand-in trainer, and what the trainer has recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Call:
    """One start of the trainer, as it saw it."""

    argv: list[str]
    environ: dict[str, str]
    cwd: str
    config: str
    pid: int


class Trainer:
    """The folder in which the trainer looks for its orders and leaves its records."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.state.mkdir(parents=True, exist_ok=True)

    def behave(self, **settings: object) -> None:
        """Say what the next trainer does, and forget the calls so far.

        seconds: how long it trains; hold: it trains until `finish`; exit: its code (a list gives one for each start);
        save_seconds: how long it goes on writing after SIGTERM; steps: it saves so many checkpoints; die_at: the first
        one of the run dies after this step; stall_at: it hangs in this step.
        """
        for name in ("calls.jsonl", "beats.jsonl", "starts.jsonl", "finish"):
            (self.state / name).unlink(missing_ok=True)
        self.set(**settings)

    def set(self, **settings: object) -> None:
        """Change what the next trainer does; the calls so far are kept, and a trainer that runs is not affected."""
        (self.state / "control.json").write_text(json.dumps(settings))

    def finish(self) -> None:
        """Let a trainer that is held come to its end."""
        (self.state / "finish").touch()

    def calls(self) -> list[Call]:
        """Return the starts of the trainer since `behave`."""
        return [Call(**record) for record in self._lines("calls.jsonl")]

    def starts(self) -> list[int]:
        """Return the step from which each trainer that saves checkpoints went on."""
        return [record["from"] for record in self._lines("starts.jsonl")]

    def writers(self) -> list[tuple[float, float, int]]:
        """Return (first, last) sign of life and the process id of every trainer since `behave`, by start."""
        seen: dict[int, list[float]] = {}
        for record in self._lines("beats.jsonl"):
            seen.setdefault(record["pid"], []).append(record["time"])
        return sorted((times[0], times[-1], pid) for pid, times in seen.items())

    def _lines(self, name: str) -> list[dict[str, Any]]:
        file = self.state / name
        # The last line may not be whole yet.
        whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]
