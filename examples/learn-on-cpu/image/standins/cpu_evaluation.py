"""Let run_eval.py generate without vLLM."""

from __future__ import annotations

from typing import Any

from cpu_generation import CpuGeneration


def change(evaluation: Any) -> None:
    """Change nemo_rl.evals.eval."""
    evaluation.VllmGeneration = CpuGeneration
