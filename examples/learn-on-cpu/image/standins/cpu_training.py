"""Let GRPO generate without vLLM: its engine and the way in which weights reach it are replaced."""

from __future__ import annotations

from typing import Any

from cpu_generation import CpuGeneration


def refit(policy: Any, generation: CpuGeneration, *_args: Any, **_kwargs: Any) -> None:
    """Copy the weights of the training worker to the generation; vLLM would read them from the GPU's memory."""
    import ray

    copies = policy.worker_group.run_all_workers_single_data("whole_weights")
    weights = ray.get(copies)[0]
    if broken := [name for name, weight in weights.items() if not weight.isfinite().all()]:
        raise ValueError(f"weights of the policy are not finite: {', '.join(broken)}")
    generation.load(weights)


def change(grpo: Any) -> None:
    """Change nemo_rl.algorithms.grpo."""
    grpo.VllmGeneration = CpuGeneration
    grpo.refit_policy_generation = refit
