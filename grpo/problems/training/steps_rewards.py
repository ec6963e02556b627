"""Rules over a run's rewards."""

from __future__ import annotations

from typing import Final

from grpo.problems.training.steps import OUR_DEFAULT, rule

RULES: Final = (
    rule(
        "dead-reward",
        title="all answers of several steps get the same reward",
        why="GRPO learns from differences in a group; with equal rewards every advantage is 0 and nothing is learned",
        fix="read samples with grpo samples, then try the reward on one of them with grpo try-reward",
        source="https://github.com/huggingface/trl/issues/3452",
    ),
    rule(
        "reward-collapse",
        title="the reward of the last ten steps (twenty if it is noisy) is below half of the best ten before",
        why="the policy has left what it had learned, and rarely comes back by itself",
        fix="resume from a checkpoint before it, with a lower learning rate or a larger KL penalty",
        source=OUR_DEFAULT,
    ),
    rule(
        "reward-below-start",
        title="the reward of the last ten steps is below all of a start that was not positive",
        why="the policy is worse than before the training, and rarely comes back by itself; harder prompts look "
        "the same",
        fix="read samples with grpo samples; lower the learning rate, or raise the KL penalty",
        source=OUR_DEFAULT,
    ),
)
