"""Read the setup of a run with verl and FSDP. Sources are verl files at 0.9.1, unless stated otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.plan.setup import (
    KEEP_ALL,
    KEEP_LAYERS,
    Batch,
    Checkpoint,
    Generator,
    Layout,
    Micro,
    NotModelledError,
    Shards,
    Trainer,
)
from grpo.values.frameworks.verl import (
    ACTOR,
    BATCH,
    DYNAMIC,
    MINI,
    MODEL,
    ROLLOUT,
    SAMPLES,
    data_parallel,
    gpus,
    sequence_parallel,
    sequences,
    uses_reference,
)
from grpo.values.frameworks.verl_data import steps_of_run
from grpo.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from grpo.plan.units import Bytes
    from grpo.values.config import RunConfig

_FSDP: Final = f"{ACTOR}.fsdp_config"
_ENGINES: Final = {"fsdp": "FSDP", "fsdp2": "FSDP2"}
_PADDING: Final = f"{MODEL}.use_remove_padding"
_MICRO: Final = f"{ACTOR}.ppo_micro_batch_size"
_KEEP: Final = "trainer.max_actor_ckpt_to_keep"
_SINGLE: Final = (None, "fp32", "float32")
# The releases that do not empty PyTorch's cache before vLLM wakes.
_KEEPS_CACHE: Final = (0, 8)
_ADAM: Final = ("Adam", "AdamW", "torch.optim.Adam", "torch.optim.AdamW", None)


def trainer(run: RunConfig) -> Trainer:
    """Return the training side; raise NotModelledError if it is not modelled, or UnknownError if a value is unknown."""
    _refuse(run)
    world, shares = gpus(run), sequence_parallel(run)
    size = run.at(f"{_FSDP}.fsdp_size")
    shards = Shards(*(size if isinstance(size, int) and 0 < size <= world else world,) * 3)
    in_float32 = run.at(f"{_FSDP}.model_dtype") in _SINGLE
    layout = Layout(
        gpus=world, data=data_parallel(run), tensor=1, pipeline=1, context=shares, expert=1, sequence_parallel=False
    )
    of_train, of_logprob = _logits(run)
    on_host = {"weights", "optimizer"} if run.on(f"{_FSDP}.offload_policy") else set[str]()
    return Trainer(
        engine=_ENGINES[str(run.at(f"{ACTOR}.strategy"))],
        layout=layout,
        weights=shards,
        states=shards,
        weight=4 if in_float32 else 2,
        gradient=4 if in_float32 else 2,
        moments=8 if in_float32 else 4,
        step=4 if in_float32 else 2,
        gathered=True,
        activation=2,
        keep=KEEP_LAYERS if run.on(f"{MODEL}.enable_gradient_checkpointing") else KEEP_ALL,
        on_host=frozenset(on_host),
        lora=lora(run),
        train=_train(run, shares),
        logprob=_logprob(run, shares),
        train_logits=of_train,
        logprob_logits=of_logprob,
        vocabulary_shards=1,
        reference=uses_reference(run),
        in_flight=1,
        keeps_cache=run.release[:2] == _KEEPS_CACHE and not run.on(f"{_FSDP}.param_offload"),
    )


def _refuse(run: RunConfig) -> None:
    """Raise NotModelledError for settings that are not modelled."""
    strategy = run.at(f"{ACTOR}.strategy")
    if str(strategy) not in _ENGINES:
        raise NotModelledError(f"the strategy {strategy}")
    if run.at("algorithm.adv_estimator") == "gae" or run.on("critic.enable"):
        raise NotModelledError("a critic (GRPO is algorithm.adv_estimator=grpo)")
    if run.on(f"{MODEL}.enable_activation_offload"):
        raise NotModelledError("activations in the memory of the node (enable_activation_offload)")
    if not run.on("actor_rollout_ref.hybrid_engine") or run.at(f"{ROLLOUT}.nnodes"):
        raise NotModelledError("generation on GPUs of its own")
    if run.on("reward.reward_model.enable") or run.on("reward_model.enable"):
        raise NotModelledError("a reward model")
    if run.on("distillation.enabled"):
        raise NotModelledError("a teacher (distillation.enabled), which has GPUs of its own")
    _refuse_optimizer(run)


def _refuse_optimizer(run: RunConfig) -> None:
    name = run.at(f"{ACTOR}.optim.optimizer")
    if name not in _ADAM:
        raise NotModelledError(f"the optimizer {name}")


def _logits(run: RunConfig) -> tuple[float, float]:
    """Return the bytes per token and vocabulary entry, for training and for the log probabilities.

    Without padding, the loss has logits and gradient in bfloat16, and the entropy 7 bytes (docs/perf/perf_tuning.rst).
    With padding, the value is 10.5, derived from the memory that a published run reports.
    """
    if run.on(f"{MODEL}.use_fused_kernels"):
        return 1, 1
    if not run.on(_PADDING):
        return 10.5, 10.5
    return 4, 2 if run.on(f"{ACTOR}.entropy_from_logits_with_chunking") else 7


def _each(run: RunConfig, path: str) -> int:
    """Return the sequences of a micro batch on a GPU; the older key counts those on all GPUs."""
    if run.at(f"{path}_per_gpu") is None and run.at(path) is not None:
        return max(run.integer(path) // data_parallel(run), 1)
    return run.integer(f"{path}_per_gpu")


def _longest(run: RunConfig) -> int:
    return run.integer("data.max_prompt_length") + run.integer("data.max_response_length")


def _train(run: RunConfig, shares: int) -> Micro:
    """Return the micro batch for training: a fixed number of sequences, or a number of tokens per GPU."""
    fills = run.on(DYNAMIC)
    return Micro(
        sequences=0 if fills else _each(run, _MICRO),
        length=_longest(run),
        budget=run.integer(f"{ACTOR}.ppo_max_token_len_per_gpu") * shares if fills else 0,
        most=max(run.integer(MINI) * run.integer(SAMPLES) // data_parallel(run), 1),
        shares=shares,
        padded=not run.on(_PADDING),
    )


def _logprob(run: RunConfig, shares: int) -> Micro:
    """Return the micro batch for the log probabilities."""
    fills = run.on(f"{ROLLOUT}.log_prob_use_dynamic_bsz")
    return Micro(
        sequences=0 if fills else _each(run, f"{ROLLOUT}.log_prob_micro_batch_size"),
        length=_longest(run),
        budget=run.integer(f"{ROLLOUT}.log_prob_max_token_len_per_gpu") * shares if fills else 0,
        most=max(sequences(run) // data_parallel(run), 1),
        shares=shares,
        padded=not run.on(_PADDING),
    )


def generator(run: RunConfig) -> Generator:
    """Return the generating side; raise NotModelledError if the engine is not vLLM."""
    if run.at(f"{ROLLOUT}.name") != "vllm":
        raise NotModelledError(f"generation with {run.at(f'{ROLLOUT}.name')}")
    length = run.at(f"{ROLLOUT}.max_model_len")
    stays = {
        name
        for name, key in (("weights", "param_offload"), ("optimizer", "optimizer_offload"))
        if not run.on(f"{_FSDP}.{key}") and not run.on(f"{_FSDP}.offload_policy")
    }
    return Generator(
        gpus=gpus(run),
        tensor=run.integer(f"{ROLLOUT}.tensor_model_parallel_size"),
        pipeline=max(run.integer(f"{ROLLOUT}.pipeline_model_parallel_size"), 1)
        if run.at(f"{ROLLOUT}.pipeline_model_parallel_size")
        else 1,
        utilization=run.number(f"{ROLLOUT}.gpu_memory_utilization"),
        length=length if isinstance(length, int) else _longest(run),
        sequences=run.integer(f"{ROLLOUT}.max_num_seqs"),
        batched_tokens=run.integer(f"{ROLLOUT}.max_num_batched_tokens"),
        weight=2,
        cache=2,
        colocated=True,
        sleeps=run.on(f"{ROLLOUT}.free_cache_engine"),
        graphs=not run.on(f"{ROLLOUT}.enforce_eager"),
        beside=frozenset(stays),
    )


def batch(run: RunConfig) -> Batch:
    """Return the arithmetic of a step; verl counts a mini batch in prompts."""
    size, fills = run.integer(MINI) * run.integer(SAMPLES), run.on(DYNAMIC)
    micro = 0 if fills else _each(run, _MICRO)
    return Batch(
        prompts=run.integer(BATCH),
        generations=run.integer(SAMPLES),
        global_batch=size,
        micro_batch=micro,
        updates=max(sequences(run) // max(size, 1), 1),
        micro_batches=0 if micro < 1 else -(-size // (data_parallel(run) * micro)),
        steps=_steps(run),
    )


def lora(run: RunConfig) -> int:
    """Return the rank of the LoRA adapters, or 0 if all parameters are trained."""
    return run.integer(f"{MODEL}.lora_rank") if run.at(f"{MODEL}.lora_rank") is not None else 0


def checkpoint(run: RunConfig, volume: Bytes | None, key: str) -> Checkpoint:
    """Return what a checkpoint contains, by save_contents (workers/config/actor.py); nothing without save_freq."""
    _refuse_optimizer(run)
    contents = run.at(f"{ACTOR}.checkpoint.save_contents")
    names = contents if isinstance(contents, list) else []
    if run.number("trainer.save_freq") <= 0:
        return Checkpoint(0, 0, volume, key)
    size = weight(run)
    each = size * ("model" in names) + 2 * size * ("optimizer" in names)
    return Checkpoint(each, _kept(run), volume, key, run.integer("trainer.save_freq"))


def weight(run: RunConfig) -> int:
    """Return the bytes per parameter in training, and in its checkpoint."""
    return 4 if run.at(f"{_FSDP}.model_dtype") in _SINGLE else 2


def _kept(run: RunConfig) -> int | None:
    """Return the number of checkpoints on the volume at the same time, or None if it depends on unknown data."""
    keep, steps = run.at(_KEEP), _steps(run)
    saves = -(-steps // run.integer("trainer.save_freq")) if steps else None
    if not isinstance(keep, int) or keep < 1:
        return saves
    # Since 0.9.1 a single one is deleted only after the next is written (checkpoint_manager.py).
    most = 2 if keep == 1 and run.since("0.9.1") else keep
    return most if saves is None else min(saves, most)


def _steps(run: RunConfig) -> int:
    """Return the run's number of steps, or 0 if it is unknown."""
    try:
        return steps_of_run(run)
    except UnknownError:
        return 0
