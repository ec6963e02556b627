"""The keys that NeMo RL reads."""

from __future__ import annotations

from grpo.rules.values import keys
from grpo.rules.values.nemo_rl.run import TOPIC

RULES = keys.rules(
    TOPIC,
    "nemo_rl/utils/config.py:137 at v0.7.0",
)
