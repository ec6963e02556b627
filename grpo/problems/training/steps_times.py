"""Rules over step times."""

from __future__ import annotations

from typing import Final

from grpo.problems.training.steps import OUR_DEFAULT, rule

RULES: Final = (
    rule(
        "slow-steps",
        title="steps take more than twice as long as the ten before, but answers did not grow as much",
        why="a slow GPU, node, network or volume slows down the whole run, and all GPUs are paid for",
        fix="compare the phases of both steps, then look at the slowest phase's workers on the Ray dashboard",
        source=OUR_DEFAULT,
    ),
    rule(
        "stalled",
        title="no step has ended for ten times the usual time",
        why="a lost worker or a hanging collective ends no job: the GPUs wait until a person looks",
        fix="look at ray status and at the pods; if nothing moves, raise job.attempt to resume",
        source=OUR_DEFAULT,
    ),
)
