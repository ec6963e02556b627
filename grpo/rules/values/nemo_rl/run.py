"""The topic of the rules over NeMo RL's configuration, and when a run would fail."""

from __future__ import annotations

from typing import Final

from grpo.rules.values.define import Topic

TOPIC: Final = Topic("nemo-rl", framework="nemo-rl", source="")

# A run of so few steps is a trial, whatever its learning rate and its checkpoints.
TRIAL: Final = 30
# When the run would fail: the reason to correct the values now.
SETUP: Final = "NeMo RL refuses it at set-up, when every pod has started and the GPUs are paid for"
WORKER: Final = "the workers refuse it while they load the model, minutes into the job"
STEP: Final = "the run fails at the first training step, after the model is loaded and a whole batch is generated"
TRAINING: Final = "the run fails in the middle of the training"
CHECKPOINT: Final = "the run fails when it saves its first checkpoint, and all steps before are lost"
