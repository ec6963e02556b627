"""The rules over NeMo RL's configuration, in the order of `grpo rules`."""

from __future__ import annotations

from postrender.rules.nemo_rl import (
    algorithm,
    batches,
    checkpoints,
    cluster,
    data,
    generation,
    keys,
    megatron,
    models,
    parallel,
)

RULES = (
    *keys.RULES,
    *batches.RULES,
    *parallel.RULES,
    *cluster.RULES,
    *generation.RULES,
    *algorithm.RULES,
    *megatron.RULES,
    *models.RULES,
    *checkpoints.RULES,
    *data.RULES,
)
