"""Read the setup of a run with NeMo RL. Sources are NeMo RL files at v0.7.0, unless stated otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.plan.setup import (
    KEEP_ALL,
    KEEP_LAYERS,
    KEEP_PARTS,
    Batch,
    Checkpoint,
    Generator,
    Layout,
    Micro,
    NotModelledError,
    Shards,
    Trainer,
)
from grpo.values.frameworks.nemo_rl import (
    COLOCATED,
    DTENSOR,
    DYNAMIC,
    GENERATIONS,
    GLOBAL_BATCH,
    LOGPROB_BATCH,
    MEGATRON,
    MICRO_BATCH,
    PACKING,
    PROMPTS,
    VLLM,
    context_parallel,
    data_parallel,
    is_megatron,
    is_v2,
    is_vllm,
    pipeline_parallel,
    rows,
    steps_of_rows,
    tensor_parallel,
    worlds,
)

if TYPE_CHECKING:
    from grpo.plan.units import Bytes
    from grpo.values.config import RunConfig
    from grpo.values.frameworks.parameters import Parameters

_LENGTH: Final = "policy.max_total_sequence_length"
_CHUNK: Final = "policy.logprob_chunk_size"
_OPTIMIZER: Final = f"{MEGATRON}.optimizer"
# The last two are DTensor's.
_ADAM: Final = ("adam", "torch.optim.AdamW", "torch.optim.Adam")
_KEEP: Final = "checkpointing.keep_top_k"
_KL: Final = "loss_fn.reference_policy_kl_penalty"
# vLLM's defaults on a GPU of 70 GiB or more (vllm/engine/arg_utils.py at v0.20.0).
_SEQUENCES, _BATCHED_TOKENS = 1024, 16384


def trainer(run: RunConfig, parameters: Parameters) -> Trainer:
    """Return the training side; raise NotModelledError if it is not modelled, or UnknownError if a value is unknown."""
    return _megatron(run, parameters) if is_megatron(run) else _dtensor(run)


def _refuse_optimizer(run: RunConfig) -> None:
    """Raise NotModelledError if the optimizer is not Adam."""
    name = run.at(f"{_OPTIMIZER}.optimizer", _ADAM[0]) if is_megatron(run) else run.at("policy.optimizer.name")
    if name not in _ADAM:
        raise NotModelledError(f"the optimizer {name}" if name else "a configuration without policy.optimizer.name")


def _layout(run: RunConfig, expert: int) -> Layout:
    section = MEGATRON if is_megatron(run) else DTENSOR
    return Layout(
        gpus=worlds(run)[0],
        data=data_parallel(run),
        tensor=tensor_parallel(run),
        pipeline=pipeline_parallel(run),
        context=context_parallel(run),
        expert=expert,
        sequence_parallel=run.on(f"{section}.sequence_parallel"),
    )


def _dtensor(run: RunConfig) -> Trainer:
    """Return the training side of a DTensor worker: FSDP2 with float32 weights (models/automodel/setup.py:330, 483)."""
    _refuse_optimizer(run)
    layout = _layout(run, _size(run, f"{DTENSOR}.expert_parallel_size"))
    replicas = _size(run, f"{DTENSOR}.dp_replicate_size") if is_v2(run) else 1
    shards = Shards(*(max(layout.gpus // replicas, 1),) * 3)
    checkpoints = run.on(f"{DTENSOR}.activation_checkpointing")
    offloaded = frozenset({"weights", "optimizer"}) if run.on(f"{DTENSOR}.cpu_offload") else frozenset[str]()
    return Trainer(
        engine="DTensor v2" if is_v2(run) else "DTensor v1",
        layout=layout,
        weights=shards,
        states=shards,
        weight=4,
        gradient=4,
        moments=8,
        step=4,
        gathered=True,
        activation=4 if run.at("policy.precision") == "float32" else 2,
        keep=KEEP_PARTS if checkpoints else KEEP_ALL,
        on_host=offloaded,
        lora=lora(run),
        train=_micro(run, MICRO_BATCH, "train_mb_tokens"),
        logprob=_micro(run, LOGPROB_BATCH, "logprob_mb_tokens"),
        train_logits=12,
        logprob_logits=_logprob_logits(run, layout),
        vocabulary_shards=layout.tensor,
        reference=run.number(_KL) > 0,
        in_flight=1,
        keeps_cache=False,
    )


def _logprob_logits(run: RunConfig, layout: Layout) -> float:
    """Return the bytes per token and vocabulary entry; a chunk size saves nothing: all chunks are concatenated."""
    return 8 if layout.tensor == 1 and run.integer(LOGPROB_BATCH) == 1 and not run.at(_CHUNK) else 12


def _megatron(run: RunConfig, parameters: Parameters) -> Trainer:
    """Return Megatron's training side: bfloat16 weights, and the optimizer's in float32 (Megatron-LM's DDP buffers)."""
    _refuse_optimizer(run)
    layout = _layout(run, _size(run, f"{MEGATRON}.expert_model_parallel_size"))
    slices = _size(run, f"{MEGATRON}.expert_tensor_parallel_size") * layout.expert * layout.pipeline
    if layout.gpus % slices:
        raise NotModelledError("experts that the GPUs cannot share evenly")
    weights = Shards(layout.tensor * layout.pipeline, slices, layout.tensor)
    copies = layout.data * layout.context if run.on(f"{_OPTIMIZER}.use_distributed_optimizer") else 1
    states = Shards(weights.layers * copies, layout.gpus if copies > 1 else slices, weights.outside * copies)
    in_float32 = run.on(f"{MEGATRON}.distributed_data_parallel_config.grad_reduce_in_fp32")
    chunked = bool(run.at(_CHUNK)) and run.on(f"{MEGATRON}.defer_fp32_logits")
    micro = _micro(run, MICRO_BATCH, "train_mb_tokens")
    return Trainer(
        engine="Megatron",
        layout=layout,
        weights=weights,
        states=states,
        weight=2,
        gradient=4 if in_float32 else 2,
        moments=12,
        step=0,
        gathered=False,
        activation=2,
        keep=KEEP_LAYERS if run.on(f"{MEGATRON}.activation_checkpointing") else KEEP_ALL,
        on_host=frozenset({"optimizer"}) if run.on(f"{_OPTIMIZER}.optimizer_cpu_offload") else frozenset(),
        lora=lora(run),
        train=micro,
        logprob=_micro(run, LOGPROB_BATCH, "logprob_mb_tokens"),
        train_logits=10 if chunked else 14,
        logprob_logits=4 if chunked else 12,
        vocabulary_shards=layout.tensor,
        reference=run.number(_KL) > 0,
        in_flight=layout.pipeline if parameters.layers >= layout.pipeline else 1,
        keeps_cache=False,
    )


def _micro(run: RunConfig, size: str, tokens: str) -> Micro:
    """Return the micro batch for training or for the log probabilities."""
    section = next((path for path in (DYNAMIC, PACKING) if run.on(path)), "").removesuffix(".enabled")
    return Micro(
        sequences=run.integer(size),
        length=run.integer(_LENGTH),
        budget=run.integer(f"{section}.{tokens}") if section else 0,
        most=max(run.integer(GLOBAL_BATCH) // data_parallel(run), 1),
        shares=context_parallel(run),
        padded=False,
    )


def generator(run: RunConfig) -> Generator:
    """Return the generating side; raise NotModelledError if the backend is not vLLM."""
    if not is_vllm(run):
        raise NotModelledError(f"generation with {run.at('policy.generation.backend')}")
    colocated, kwargs = run.on(COLOCATED), "policy.generation.vllm_kwargs"
    fp8 = run.at(f"{VLLM}.precision") == "fp8"
    cache = str(run.at(f"{VLLM}.kv_cache_dtype", "auto"))
    return Generator(
        gpus=worlds(run)[1],
        tensor=_size(run, f"{VLLM}.tensor_parallel_size"),
        pipeline=_size(run, f"{VLLM}.pipeline_parallel_size"),
        utilization=run.number(f"{VLLM}.gpu_memory_utilization"),
        length=run.integer(f"{VLLM}.max_model_len"),
        sequences=_given(run, f"{kwargs}.max_num_seqs", _SEQUENCES),
        batched_tokens=_given(run, f"{kwargs}.max_num_batched_tokens", _BATCHED_TOKENS),
        weight=1.1 if fp8 else 2,
        cache=1 if cache.startswith("fp8") else 2,
        colocated=colocated,
        sleeps=colocated,
        graphs=not run.on(f"{VLLM}.enforce_eager"),
        beside=frozenset(),
    )


def batch(run: RunConfig) -> Batch:
    """Return the arithmetic of a step."""
    size, micro, data = run.integer(GLOBAL_BATCH), run.integer(MICRO_BATCH), data_parallel(run)
    filled = run.on(DYNAMIC) or run.on(PACKING)
    return Batch(
        prompts=run.integer(PROMPTS),
        generations=run.integer(GENERATIONS),
        global_batch=size,
        micro_batch=0 if filled else micro,
        updates=max(rows(run) // max(size, 1), 1),
        micro_batches=0 if filled or micro < 1 else -(-size // (data * micro)),
        steps=_given(run, "grpo.max_num_steps", 0),
    )


def lora(run: RunConfig) -> int:
    """Return the rank of the LoRA adapters, or 0 if all parameters are trained."""
    section = f"{MEGATRON}.peft" if is_megatron(run) else f"{DTENSOR}.lora_cfg"
    return run.integer(f"{section}.dim") if run.on(f"{section}.enabled") else 0


def checkpoint(run: RunConfig, volume: Bytes | None, key: str) -> Checkpoint:
    """Return what a checkpoint contains: weights and the optimizer's moments (utils/checkpoint.py:140, 269)."""
    if not run.on("checkpointing.enabled"):
        return Checkpoint(0, 0, volume, key)
    _refuse_optimizer(run)
    moments = not (run.since("v0.6.0") and run.at("checkpointing.save_optimizer") is False)
    weight, states = (2, 12) if is_megatron(run) else (4, 8)
    steps, period = run.integer("grpo.max_num_steps"), max(run.integer("checkpointing.save_period"), 1)
    # The run ends with its last epoch, too.
    steps = min(steps, of_rows) if (of_rows := steps_of_rows(run)) else steps
    saves, keep = -(-steps // period), run.at(_KEEP)
    # The newest one is kept too, and old ones are deleted after the new one is written.
    count = min(saves, keep + 2) if isinstance(keep, int) and keep > 0 else saves
    return Checkpoint(weight + states * moments, count, volume, key, period)


def _size(run: RunConfig, path: str) -> int:
    """Return a parallel size, or 1 if the version has no such key."""
    return max(run.integer(path), 1) if run.at(path) is not None else 1


def _given(run: RunConfig, path: str, default: int) -> int:
    return run.integer(path) if run.at(path) is not None else default
