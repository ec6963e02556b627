"""All rules over values, in the order of `grpo rules`."""

from __future__ import annotations

from postrender.rules import job
from postrender.rules.nemo_rl import (
    algorithm,
    batches,
    checkpoints,
    cluster,
    data,
    generation,
    keys,
    megatron,
    parallel,
)
from postrender.rules.verl import batches as verl_batches
from postrender.rules.verl import settings as verl_settings

RULES = (
    *job.RULES,
    *keys.RULES,
    *batches.RULES,
    *parallel.RULES,
    *cluster.RULES,
    *generation.RULES,
    *algorithm.RULES,
    *megatron.RULES,
    *checkpoints.RULES,
    *data.RULES,
    *verl_settings.RULES,
    *verl_batches.RULES,
)
