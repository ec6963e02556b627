"""Rules over policy updates."""

from __future__ import annotations

from typing import Final

from grpo.problems.training.steps import OUR_DEFAULT, rule

RULES: Final = (
    rule(
        "not-a-number",
        title="the loss, the gradient norm, the reward or the KL is NaN or infinite",
        why="one update with NaN or infinity destroys all weights, and every later checkpoint has them",
        fix="resume from the last checkpoint before this step, with a lower learning rate or gradient clipping",
        source=OUR_DEFAULT,
    ),
    rule(
        "kl-blow-up",
        title="the KL from the reference model stays above 0.5 and far above its usual value",
        why="the policy has left the reference model, which often ends in rewards of 0 and meaningless text",
        fix="resume from a checkpoint before it, with a lower learning rate or a larger KL coefficient",
        source="https://github.com/huggingface/open-r1/issues/257",
    ),
    rule(
        "entropy-collapse",
        title="entropy falls below a tenth of its start or 0.02, but the reward no longer rises",
        why="all answers to a prompt become the same, so that no group has a difference to learn from",
        fix="raise the upper clip ratio (0.28 in DAPO) or the temperature, or add an entropy bonus",
        source="https://arxiv.org/abs/2503.14476",
    ),
    rule(
        "grad-norm-spikes",
        title="the gradient norm stays above ten times its usual value",
        why="such updates often come before a collapse; clipping hides them from the weights, but does "
        "not remove their cause",
        fix="lower the learning rate, and look for damaged samples or a mismatch with the engine at these steps",
        source=OUR_DEFAULT,
    ),
)
