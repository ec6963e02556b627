"""The names of jobs/runlog that rules and commands use."""

from __future__ import annotations

from signs import SEVERITIES, STALLED, Judge, Sign
from steps import ENDED, LOADING, Event, Phase, Step, Validation

__all__ = ["ENDED", "LOADING", "SEVERITIES", "STALLED", "Event", "Judge", "Phase", "Sign", "Step", "Validation"]
