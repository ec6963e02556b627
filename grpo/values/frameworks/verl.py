"""Read a verl GRPO configuration, 0.6.1 to 0.9.1: its keys, GPUs, parallel sizes and batches.

The charts compose job.config over ppo_trainer, whose actor uses FSDP. Settings that concern only Megatron are not
read, because no file can choose it (rule verl/strategy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.values.frameworks.model import Model
from grpo.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from grpo.values.config import RunConfig

NODES: Final = "=job.nodes =ray.workers.replicas"
ACTOR: Final = "actor_rollout_ref.actor"
REF: Final = "actor_rollout_ref.ref"
ROLLOUT: Final = "actor_rollout_ref.rollout"
CRITIC: Final = "critic"
MODEL: Final = "actor_rollout_ref.model"
BATCH: Final = "data.train_batch_size"
MINI: Final = f"{ACTOR}.ppo_mini_batch_size"
MICRO: Final = f"{ACTOR}.ppo_micro_batch_size_per_gpu"
DYNAMIC: Final = f"{ACTOR}.use_dynamic_bsz"
SAMPLES: Final = f"{ROLLOUT}.n"
SEQUENCE: Final = f"{ACTOR}.ulysses_sequence_parallel_size"
# Each KL coefficient with its switch.
KL_COEFFICIENTS: Final = (
    (f"{ACTOR}.kl_loss_coef", f"{ACTOR}.use_kl_loss"),
    ("algorithm.kl_ctrl.kl_coef", "algorithm.use_kl_in_reward"),
)


def gpus(run: RunConfig) -> int:
    """Return the run's total number of GPUs."""
    if run.nodes < 1 or run.gpus < 1:
        raise UnknownError("GPUs")
    return run.nodes * run.gpus


def sequences(run: RunConfig) -> int:
    """Return the number of answers that a step samples."""
    return run.integer(BATCH) * run.integer(SAMPLES)


def data_parallel(run: RunConfig) -> int:
    """Return the actor's data parallel size; raise UnknownError if the GPUs cannot be divided."""
    parts = sequence_parallel(run)
    if parts < 1 or gpus(run) % parts:
        raise UnknownError(f"how to split {gpus(run)} GPUs by sequence parallel {parts}")
    return gpus(run) // parts


def sequence_parallel(run: RunConfig) -> int:
    """Return the Ulysses sequence parallel size: the actor's size replaces the engine's own if it is above 1."""
    size = run.integer(SEQUENCE)
    if size > 1 or not has_engine_workers(run):
        return size
    return run.integer(f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size")


def has_engine_workers(run: RunConfig) -> bool:
    """Return whether the newer workers run: always from 0.8.0, on demand in 0.7.1."""
    return run.since("0.8.0") or (run.since("0.7.1") and run.at("trainer.use_legacy_worker_impl") == "disable")


def has_new_trainer(run: RunConfig) -> bool:
    """Return whether the 0.9 trainer runs, which pads batches that cannot be divided."""
    return run.since("0.9.1") and run.on("trainer.use_v1")


def validates(run: RunConfig) -> bool:
    """Return whether the run validates, before or during training."""
    try:
        return run.at("trainer.val_before_train", True) is not False or run.integer("trainer.test_freq") > 0
    except UnknownError:
        return True


def uses_reference(run: RunConfig) -> bool:
    """Return whether a reference policy is loaded for one of the two KL terms."""
    return run.on("algorithm.use_kl_in_reward") or run.on(f"{ACTOR}.use_kl_loss")


def has_critic(run: RunConfig) -> bool:
    """Return whether a critic is trained too."""
    switch = run.at("critic.enable")
    return run.at("algorithm.adv_estimator") == "gae" if switch is None else bool(switch)


def recomputes_log_probs(run: RunConfig) -> bool:
    """Return whether the actor recomputes its answers' log probabilities; otherwise it uses the rollout's."""
    return not run.on("algorithm.rollout_correction.bypass_mode")


def is_on_policy(run: RunConfig) -> bool:
    """Return whether the probability ratio is always 1: one update per step, on answers from the same weights."""
    once = run.integer(BATCH) == run.integer(MINI) and run.at(f"{ACTOR}.ppo_epochs", 1) == 1
    # Answers sampled with older weights have another ratio than 1.
    return once and recomputes_log_probs(run) and run.at("trainer.v1.trainer_mode", "sync") == "sync"


def model_of(run: RunConfig) -> Model:
    """Return the model as verl reads it: its config may be in another folder, and overrides may be one level deeper."""
    overrides = run.at(f"{MODEL}.override_config")
    if isinstance(overrides, dict) and "model_config" in overrides:
        overrides = overrides["model_config"]
    return Model(run.at(f"{MODEL}.hf_config_path") or run.at(f"{MODEL}.path"), overrides)
