"""All rules that `grpo check` asks: those of the gate, and those that the post-renderer has no time for."""

from __future__ import annotations

from postrender.rules import gate
from postrender.rules.kueue import queue
from postrender.rules.ray import (
    autoscaler,
    containers,
    deletion,
    fault_tolerance,
    fields,
    groups,
    names,
    rayjob,
    scaling,
    schedulers,
    shell,
    submission,
    tokens,
)

RULES = (
    *gate.RULES,
    *names.RULES,
    *fields.RULES,
    *scaling.RULES,
    *groups.RULES,
    *containers.RULES,
    *rayjob.RULES,
    *submission.RULES,
    *shell.RULES,
    *deletion.RULES,
    *autoscaler.RULES,
    *tokens.RULES,
    *schedulers.RULES,
    *fault_tolerance.RULES,
    *queue.RULES,
)
