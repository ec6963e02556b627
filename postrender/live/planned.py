"""What `grpo plan` says about the memory of a node, kept with what a stack asks for, so that a bundle has it too."""

from __future__ import annotations

from typing import Any

from postrender.lint.linter import described_run
from postrender.plan import host, planner
from postrender.values.merge import Values


def host_memory(values: Values) -> dict[str, Any]:
    """Return verdict, peak and limit of a node, and what only one phase has there; else `reason`: why not planned."""
    run = described_run(values)
    if run is None:
        return {"reason": "the values describe no run on a machine"}
    setup, reason = (found := planner.plan(run)).setup, found.reason
    if setup is None or setup.machine.host is None:
        return {"reason": reason or "the memory of a node is not known"}
    return {
        "verdict": host.verdict(setup),
        "peak": str(host.peak(setup)),
        "limit": str(setup.machine.host),
        "during": {phase: {item.name: str(item.fixed) for item in host.during(setup, phase)} for phase in host.PHASES},
    }
