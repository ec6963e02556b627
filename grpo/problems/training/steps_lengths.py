"""Rules over answer length."""

from __future__ import annotations

from typing import Final

from grpo.problems.training.steps import OUR_DEFAULT, rule

RULES: Final = (
    rule(
        "length-explosion",
        title="answers become more than three times as long within a few steps",
        why="the model repeats itself or was rewarded for length; steps become slower and memory may run out",
        fix="read the longest answers with grpo samples, and penalise length or lower the limit of new tokens",
        source=OUR_DEFAULT,
    ),
    rule(
        "length-collapse",
        title="answers become less than half as long, but the reward does not rise",
        why="the model has found a short answer that the reward does not punish, and stops reasoning",
        fix="read samples with grpo samples, and let the reward judge the answer and not only its format",
        source=OUR_DEFAULT,
    ),
    rule(
        "truncated",
        title="more than 10 % of the answers reach the limit of their length",
        why="an answer that is cut off has no final result, so the reward punishes length instead of mistakes",
        fix="raise the limit of new tokens, or leave such answers out of the loss (overlong filtering)",
        source="docs/perf/best_practices.rst:131 at verl v0.9.0",
    ),
)
