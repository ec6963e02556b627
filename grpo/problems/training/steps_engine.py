"""Rules over the agreement between the policy being trained and the engine that generates."""

from __future__ import annotations

from typing import Final

from grpo.problems.training.steps import NEMO_RL_GUIDE, rule

RULES: Final = (
    rule(
        "generation-mismatch",
        title="policy and generation engine disagree: their KL stays above 0.01",
        why="updates are computed for answers that the policy would not have given; 0.001 is what NeMo RL accepts",
        fix="compare precision and parallel sizes of both sides, and correct by importance sampling",
        source=f"{NEMO_RL_GUIDE}:549 at v0.7.0",
    ),
    rule(
        "importance-ratio",
        title="the mean importance ratio stays below 0.8 or above 1.25",
        why="1 means agreement; NeMo RL says that it hovers there, and verl warns below 0.5 and above 2",
        fix="use younger trajectories (a smaller maximum age), or compare the precision of policy and engine",
        source="docs/algo/rollout_corr.md:998 at verl v0.9.0",
    ),
)
