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
from postrender.rules.verl import actor, micro_batches, rollout, trainer
from postrender.rules.verl import batches as verl_batches

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
    *actor.RULES,
    *verl_batches.RULES,
    *micro_batches.RULES,
    *rollout.RULES,
    *trainer.RULES,
)
