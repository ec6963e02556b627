"""The keys that NeMo RL reads."""

from __future__ import annotations

from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.problems.keys import judged as keys

RULES = keys.rules(
    TOPIC,
    "nemo_rl/utils/config.py:137 at v0.7.0",
    refusals=("validation error for MasterConfig", "validation errors for MasterConfig"),
)
