"""Rules over the updates of the policy."""

from __future__ import annotations

from typing import Final

from grpo.rules.log.define import OUR_DEFAULT, rule

RULES: Final = (
    rule(
        "not-a-number",
        title="loss, gradient norm, reward and KL are finite numbers",
        why="one update with NaN or infinity destroys all weights, and every later checkpoint has them",
        fix="resume from the last checkpoint before this step, with a lower learning rate or gradient clipping",
        source=OUR_DEFAULT,
    ),
    rule(
        "kl-blow-up",
        title="the KL from the reference model stays below 0.5 or near its usual value",
        why="the policy has left the reference model, which often ends in rewards of 0 and text without sense",
        fix="resume from a checkpoint before it, with a lower learning rate or a larger KL coefficient",
        source="https://github.com/huggingface/open-r1/issues/257",
    ),
    rule(
        "entropy-collapse",
        title="entropy stays above a tenth of its start while there is something to learn",
        why="all answers to a prompt become the same, so that no group has a difference to learn from",
        fix="raise the upper clip ratio (0.28 in DAPO) or the temperature, or add an entropy bonus",
        source="https://arxiv.org/abs/2503.14476",
    ),
    rule(
        "grad-norm-spikes",
        title="the gradient norm does not stay above ten times its usual value",
        why="such updates often come before a collapse; clipping hides them from the weights, but not their reason",
        fix="lower the learning rate, and look for damaged samples or a mismatch with the engine at these steps",
        source=OUR_DEFAULT,
    ),
)
