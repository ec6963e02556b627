"""Determine which phase of a step a run was in, and what `grpo plan` computes for a node's memory in that phase."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from grpo.cluster.evidence import Evidence
from grpo.problems.line import HEAD, Line
from grpo.runlog.shared import words

# What the frameworks print when a phase begins: NeMo RL each, verl those between its steps.
_BEGINS: Final = {
    r"▶ Setting up compute cluster|Total training steps: ": "loading",
    r"={3,} Step \d+/\d+ ={3,}|step:\d+ - ": "step",
    r"▶ Generating responses": "generation",
    r"▶ Processing rewards": "rewards",
    r"▶ Preparing for logprob|▶ Computing logprobs": "logprobs",
    r"▶ Preparing for training|▶ Training policy": "training",
    r"Saving checkpoint for step|local_global_step_folder: ": "checkpoint",
    r"▶ Starting validation|test_gen_batch meta info: ": "validation",
}
_MARK: Final = re.compile("|".join(f"({pattern})" for pattern in _BEGINS))
_DRIVER: Final = "output.log"


def of_run(evidence: Evidence, line: Line) -> tuple[str, str]:
    """Return the phase that a run was in at a line, and the place that shows it; empty if nothing does.

    The driver's output is the most precise source; without it, the last phase recorded by the guard is used.
    """
    for name, text in evidence.logs.items():
        if name.endswith(_DRIVER):
            last = line.order if line.source == name else None
            lines = text.splitlines()[:last]
            for number in range(len(lines), 0, -1):
                if found := _MARK.match(words(lines[number - 1]).lstrip("(\"'")):
                    return list(_BEGINS.values())[(found.lastindex or 1) - 1], f"{name}:{number}"
    phase = str(evidence.record.get("phase") or "")
    return (phase, "status.json") if phase else ("", "")


def memory(lines: Sequence[Line], evidence: Evidence | None) -> str:
    """Return in which phase a node ran out of memory, and what the plan computes for that phase."""
    if evidence is None:
        return ""
    phase, place = of_run(evidence, lines[0])
    when = f"the run was in the phase {phase} ({place}); " if phase else "the phase of the run is not known; "
    if any(line.role == HEAD for line in lines[:1]):
        return f"{when}grpo plan does not count the memory of the head"
    return when + _planned(evidence.expected.host, phase)


def _planned(host: dict[str, Any], phase: str) -> str:
    if not host:
        return "the bundle has no plan: grpo plan -f … counts the memory of a node"
    if "reason" in host:
        return f"grpo plan does not judge the memory of this run: {host['reason']}"
    total = f"{host['peak']} of {host['limit']} for a node at most ({host['verdict']})"
    if not phase or phase in ("step", "first step"):
        return f"grpo plan counts {total}"
    if phase not in host["during"]:
        return f"grpo plan does not judge this phase; for the others it counts {total}"
    own = ", ".join(f"{name} {size}" for name, size in host["during"][phase].items())
    return f"grpo plan counts {total}; this phase adds {own or 'nothing'}"
