"""Maintain status.json in a run's folder: the run's progress, its cost so far, and its findings.

A separate thread writes it, because a volume may hang or be full, and this must not affect the run.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from files import read_json, write_atomically
from owner import BEAT_SECONDS, LAPSE_SECONDS
from runtime import Record, say

NAME: Final = "status.json"
FINDINGS: Final = 50
PATIENCE_SECONDS: Final = min(5.0, LAPSE_SECONDS / 2)


def timestamp() -> str:
    """Return the current UTC time, for human readers only: nothing is computed from it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def number(record: Record, key: str) -> float:
    value = record.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


class Status:
    """A run's record; GPU-hours cover all its attempts, and accumulate while a trainer runs.

    `unsaved` hours are those since the last checkpoint. They are lost if the trainer or this program is killed.
    """

    def __init__(self, directory: Path, about: Record, allowed: Callable[[], bool]) -> None:
        self.path, self.allowed, self.told = directory / NAME, allowed, False
        self.spent = self.lost = self.unsaved = 0.0
        # Whether an earlier start of this run has printed a step that was understood.
        self.stepped, self.known = False, False
        self.fields: Record = {**about, "started": timestamp(), "state": "starting", "findings": []}
        with contextlib.suppress(OSError):
            self.remember()
        self.lock, self.changed, self.done = threading.Lock(), threading.Event(), threading.Event()
        self.writer = threading.Thread(target=self.keep, daemon=True)
        self.writer.start()

    def remember(self) -> None:
        """Add what earlier attempts have spent, and keep their last checkpoint."""
        before = read_json(str(self.path))
        hours = before.get("gpuHours")
        hours = hours if isinstance(hours, dict) else {}
        self.spent += number(hours, "spent")
        self.lost += number(hours, "lost") + number(hours, "unsaved")
        self.stepped = number(before, "step") > 0
        if "checkpoint" in before:
            self.fields.setdefault("checkpoint", before["checkpoint"])
        self.known = True

    def set(self, **fields: Any) -> None:
        """Update fields of the record."""
        with self.lock:
            self.fields.update(fields)
        self.changed.set()

    def find(self, sign: str, text: str) -> None:
        """Add a finding; the oldest findings are dropped."""
        finding = {"time": timestamp(), "sign": sign, "text": text}
        with self.lock:
            self.fields["findings"] = [*self.fields["findings"], finding][-FINDINGS:]
        self.changed.set()

    def spend(self, seconds: float) -> None:
        """Add the GPU-hours of a running trainer."""
        hours = seconds * number(self.fields, "gpus") / 3600
        self.spent += hours
        self.unsaved += hours

    def save(self, seconds: float) -> None:
        """Record that the state from `seconds` ago is in a complete checkpoint."""
        self.unsaved = seconds * number(self.fields, "gpus") / 3600

    def lose(self) -> None:
        """Record that a trainer has ended before its work was saved."""
        self.lost, self.unsaved = self.lost + self.unsaved, 0.0

    def text(self) -> str:
        hours = {"spent": round(self.spent, 3), "lost": round(self.lost, 3), "unsaved": round(self.unsaved, 3)}
        with self.lock:
            return json.dumps({**self.fields, "updated": timestamp(), "gpuHours": hours}, indent=2) + "\n"

    def write(self) -> None:
        try:
            if self.allowed():
                # What cannot be read is not replaced.
                if not self.known:
                    self.remember()
                write_atomically(self.path, self.text())
                self.told = False
        except OSError as error:
            if not self.told:
                say(f"warning: cannot write {self.path}: {error.strerror}; the run continues")
            self.told = True

    def keep(self) -> None:
        """Write changes, at most once per heartbeat, and the final state at the end."""
        last = False
        while not last:
            self.changed.wait()
            self.changed.clear()
            last = self.done.is_set()
            self.write()
            self.done.wait(BEAT_SECONDS)

    def close(self) -> None:
        """Write the final state; give up if the volume hangs."""
        self.done.set()
        self.changed.set()
        self.writer.join(PATIENCE_SECONDS)
