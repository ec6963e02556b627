"""Read the plan that the chart grpo-job writes into a RayJob's entrypoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from postrender import json_text
from postrender.manifests.pods import mapping

# As charts/grpo-job/templates/_entrypoint.tpl writes it; an end after no first beginning is after no later one either.
PLAN: Final = re.compile(r"(?>\A.*?^exec 3<<'GRPO_PLAN'\n)(?P<text>.*?)^GRPO_PLAN$", re.MULTILINE | re.DOTALL)


def plan(rayjob: Mapping[str, Any]) -> dict[str, Any]:
    """Return a RayJob's plan; empty if none of our charts created the RayJob."""
    match = PLAN.search(str(mapping(rayjob.get("spec")).get("entrypoint", "")))
    try:
        return mapping(json_text.loads(match["text"])) if match else {}
    except ValueError:
        return {}


def attempt_directory(plan: Mapping[str, Any]) -> str:
    """Return the folder of the plan's attempt on its run's volume; empty without a plan."""
    return f"{plan['runDirectory']}/attempts/{plan['attempt']}" if {"runDirectory", "attempt"} <= set(plan) else ""
