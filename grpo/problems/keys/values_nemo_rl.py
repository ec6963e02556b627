"""The keys that NeMo RL reads."""

from __future__ import annotations

from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.problems.keys import judged as keys
from grpo.problems.sign import printed

RULES = keys.rules(
    TOPIC,
    "nemo_rl/utils/config.py:137 at v0.7.0",
    refusals=printed("validation error for masterconfig", "validation errors for masterconfig"),
)
