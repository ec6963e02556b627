"""The topic of the rules over NeMo RL's configuration, and when a run fails."""

from __future__ import annotations

from typing import Final

from grpo.problems.topic import Topic
from postrender.problem import Fails

TOPIC: Final = Topic(
    "nemo-rl",
    framework="nemo-rl",
    source="",
    reasons={
        Fails.AT_SETUP: "NeMo RL rejects it at setup, with every pod running and every GPU billing",
        Fails.AT_FIRST_STEP: "the run fails at the first training step, after "
        "the model is loaded and a whole batch is generated",
    },
)

# A run of so few steps is a trial, whatever its learning rate and its checkpoints.
TRIAL: Final = 30
