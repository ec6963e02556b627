"""What a run has left on its volume: the samples of each step, the output of each attempt, and its evaluations."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frameworks import ROOT

sys.path.insert(0, str(ROOT / "jobs/inspection"))
sys.path.insert(0, str(ROOT / "jobs/runlog"))
import log_readers
import samples
from steps import Step


@dataclass(frozen=True)
class Run:
    """The directory of a run."""

    folder: Path

    def steps(self) -> dict[int, Path]:
        """Return the file with the samples of each step; of a step that was trained twice, the newer one."""
        try:
            return samples.steps_of(self.folder)
        except samples.SampleError:
            return {}

    def mean_rewards(self) -> list[float]:
        """Return the mean reward of each step, as `grpo samples` counts it."""
        found = []
        for _, path in sorted(self.steps().items()):
            rewards = samples.Rewards()
            for _ in samples.samples(path, rewards):
                pass
            found.append(rewards.mean)
        return found

    def output(self, attempt: int) -> str:
        """Return what the launcher and the trainer of an attempt have printed."""
        file = self.folder / f"attempts/{attempt}/output.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def status(self) -> dict[str, Any]:
        """Return what the guard says of the run."""
        file = self.folder / "status.json"
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}

    def printed(self, attempt: int) -> list[Step]:
        """Return the steps that an attempt has printed, as `grpo watch` reads them."""
        reader = log_readers.reader(log_readers.ANY)
        events = [*reader.feed(self.output(attempt)), *reader.end()]
        return [event for event in events if isinstance(event, Step)]

    def scores(self) -> dict[str, float]:
        """Return the share of right answers of the base model and of the checkpoint."""
        files = sorted((self.folder / "evaluations").glob("gsm8k-*.json"))
        return {path.stem.removeprefix("gsm8k-"): float(json.loads(path.read_text())["score"]) for path in files}
