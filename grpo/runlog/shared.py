"""The names of jobs/runlog that rules and commands use."""

from __future__ import annotations

from log_lines import LONGEST, words
from signs import SEVERITIES, SIGNS, STALLED, Judge, Limits, Sign
from steps import ENDED, LOADING, Event, Phase, Step, Validation

__all__ = [
    "ENDED",
    "LOADING",
    "LONGEST",
    "SEVERITIES",
    "SIGNS",
    "STALLED",
    "Event",
    "Judge",
    "Limits",
    "Phase",
    "Sign",
    "Step",
    "Validation",
    "words",
]
