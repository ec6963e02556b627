"""The rules over verl's configuration, in the order of `grpo rules`."""

from __future__ import annotations

from postrender.rules.verl import actor, batches, micro_batches, models, rollout, trainer

RULES = (*actor.RULES, *batches.RULES, *micro_batches.RULES, *rollout.RULES, *models.RULES, *trainer.RULES)
