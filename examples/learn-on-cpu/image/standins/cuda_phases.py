"""Print when a phase of a step begins, so that the GPU's memory can be told apart by phases. Nothing is replaced."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

# The classes of the driver → the method with which a phase begins → the phase.
BEGINNINGS = {
    "Policy": {
        "prepare_for_lp_inference": "log-probabilities",
        "prepare_for_training": "training",
        "save_checkpoint": "checkpoint",
    },
    "VllmGeneration": {"prepare_for_generation": "generation"},
}
# vLLM wakes twice: before it gets new weights, and to generate.
WAKES_FOR_WEIGHTS, REFIT = ["weights"], "refit"


def announced(method: Callable[..., Any], phase: str) -> Callable[..., Any]:
    """Return the method with a line before each call."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        named = REFIT if kwargs.get("tags") == WAKES_FOR_WEIGHTS else phase
        print(f"learn: phase {named} begins at {time.time():.3f}", flush=True)
        return method(*args, **kwargs)

    return call


def change(module: Any) -> None:
    """Change the module of one of the classes."""
    for name in BEGINNINGS.keys() & vars(module).keys():
        for method, phase in BEGINNINGS[name].items():
            kind = getattr(module, name)
            setattr(kind, method, announced(getattr(kind, method), phase))
