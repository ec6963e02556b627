"""Errors of a framework that a rule of `grpo lint` says before."""

from __future__ import annotations

from postrender.live.why.cause import CONFIGURATION, SAME, Cause, printed
from postrender.rules import messages

ASSERTION = Cause(
    "rule-broken",
    "the framework refuses values that grpo lint refuses before the start",
    CONFIGURATION,
    "run grpo lint with the values files: it has the numbers and what to write",
    SAME,
    printed(*messages.table()),
    value="job.config",
)
