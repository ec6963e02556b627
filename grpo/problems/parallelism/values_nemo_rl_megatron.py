"""What NeMo RL's Megatron backend requires of its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import GENERATION, MEGATRON, PACKING, context_parallel, is_megatron, tensor_parallel
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_OPTIMIZER = f"{MEGATRON}.optimizer"
_FUSED = f"{MEGATRON}.use_fused_linear_logprobs"
_INFERENCE = f"{GENERATION}.mcore_generation_config"
_ENGINE = f"{_INFERENCE}.async_engine"
_MULTIPLE = "policy.make_sequence_length_divisible_by"


@TOPIC.problem(
    f"{PACKING} {MEGATRON}.context_parallel_size",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/megatron/setup.py:634 at v0.7.0",
    logs="Sequence Packing must be enabled to use Context Parallelism with MCore",
)
def context_parallel_megatron(run: RunConfig) -> str | None:
    """Megatron's context parallelism is on, but sequence packing is off

    Fix: set policy.sequence_packing.enabled to true, or context_parallel_size to 1
    """
    apart = is_megatron(run) and context_parallel(run) > 1 and not run.on(PACKING)
    return f"context_parallel_size is {context_parallel(run)}, and sequence packing is off" if apart else None


@TOPIC.problem(
    f"{MEGATRON}.defer_fp32_logits policy.logprob_chunk_size",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/megatron/setup.py:902 at v0.7.0",
    logs="defer_fp32_logits must be True if logprob_chunk_size is set",
)
def chunked_logprobs(run: RunConfig) -> str | None:
    """log probabilities are computed in chunks, but defer_fp32_logits is off

    Fix: set policy.megatron_cfg.defer_fp32_logits to true, or logprob_chunk_size to null
    """
    size = run.at("policy.logprob_chunk_size")
    if not is_megatron(run) or not isinstance(size, int) or size <= 0 or run.on(f"{MEGATRON}.defer_fp32_logits"):
        return None
    return f"logprob_chunk_size is {size}, and defer_fp32_logits is off"


@TOPIC.problem(
    f"{_OPTIMIZER}.bf16 {_OPTIMIZER}.fp16 policy.precision",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/megatron/setup.py:956 at v0.7.0",
    since="v0.5.0",
    logs="policy.megatron_cfg.optimizer.bf16=True must be set if policy.precision=bfloat16",
)
def optimizer_precision(run: RunConfig) -> str | None:
    """the precision-aware optimizer does not match policy.precision

    Fix: set bf16 or fp16 in policy.megatron_cfg.optimizer to match policy.precision
    """
    name = {"bfloat16": "bf16", "float16": "fp16"}.get(str(run.at("policy.precision")))
    if not is_megatron(run) or not name or not run.on(f"{_OPTIMIZER}.use_precision_aware_optimizer"):
        return None
    given = run.at(f"{_OPTIMIZER}.{name}")
    if given is True:
        return None
    return f"policy.precision is {run.at('policy.precision')}, and optimizer.{name} is {quoted(given)}"


@TOPIC.problem(
    _MULTIPLE,
    fails=Fails.LATER,
    source="nemo_rl/models/megatron/data.py:1132 at v0.7.0",
    since="v0.6.0",
    logs="is not a multiple of minimum_pad_factor",
)
def padding_multiple(run: RunConfig) -> str | None:
    """packed sequences are padded to a multiple that CP and TP cannot split evenly

    Fix: set policy.make_sequence_length_divisible_by to a multiple of 2 × CP, times TP with sequence_parallel
    """
    if not is_megatron(run) or not run.on(PACKING):
        return None
    cuts = 2 * context_parallel(run) if context_parallel(run) > 1 else 1
    cuts *= tensor_parallel(run) if run.on(f"{MEGATRON}.sequence_parallel") else 1
    multiple = run.integer(_MULTIPLE)
    reason = "2 × CP, and TP with sequence_parallel"
    return f"{multiple} is not a multiple of {cuts} ({reason})" if multiple % cuts else None


@TOPIC.problem(
    f"{MEGATRON}.recompute_granularity",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/megatron/setup.py:810 at v0.7.0",
    since="v0.7.0",
    logs="Valid options are 'full' or 'selective",
)
def recompute_granularity(run: RunConfig) -> str | None:
    """recompute_granularity is neither full nor selective

    Fix: set it to full or selective
    """
    kind = run.at(f"{MEGATRON}.recompute_granularity", "full")
    if not is_megatron(run) or not run.on(f"{MEGATRON}.activation_checkpointing") or kind in ("full", "selective"):
        return None
    return f"recompute_granularity is {quoted(kind)}, expected full or selective"


@TOPIC.problem(
    f"{_FUSED} {PACKING} {GENERATION}.top_k {GENERATION}.top_p",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:673 at 7ea279ab",
    since="v0.8.0",
)
def fused_logprobs(run: RunConfig) -> Iterator[Finding]:
    """fused log probabilities are on with sequence packing, top_k or top_p

    Fix: turn off use_fused_linear_logprobs, or turn off packing and set top_k to null and top_p to 1.0
    """
    if not is_megatron(run) or not run.on(_FUSED):
        return
    if run.on(PACKING):
        yield Finding("use_fused_linear_logprobs and sequence packing are both on", keys=[PACKING, _FUSED])
    top_k, top_p = run.at(f"{GENERATION}.top_k"), run.number(f"{GENERATION}.top_p")
    if top_p != 1 or top_k not in (None, -1):
        what = f"use_fused_linear_logprobs is on, top_k is {quoted(top_k)} and top_p {top_p:g}"
        yield Finding(what, keys=[f"{GENERATION}.{'top_p' if top_p != 1 else 'top_k'}", _FUSED])


@TOPIC.problem(
    f"{_INFERENCE}.sequence_parallel {_INFERENCE}.transformer_impl {MEGATRON}.transformer_impl",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/generation/megatron/config.py:92 at 7ea279ab",
    since="v0.8.0",
)
def optimized_inference(run: RunConfig) -> str | None:
    """layers optimized for inference have TP 2 or more, but sequence_parallel is off

    Fix: set policy.generation.mcore_generation_config.sequence_parallel to true
    """

    def at(key: str) -> object:
        return run.at(f"{_INFERENCE}.{key}") if run.has(f"{_INFERENCE}.{key}") else run.at(f"{MEGATRON}.{key}")

    size = at("tensor_model_parallel_size")
    if run.at(f"{GENERATION}.backend") != "megatron" or at("transformer_impl") != "inference_optimized":
        return None
    if not isinstance(size, int) or size < 2 or at("sequence_parallel"):
        return None
    return f"transformer_impl is inference_optimized with TP {size}, and sequence_parallel is off"


@TOPIC.problem(
    _ENGINE,
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/generation/interfaces.py:255 at 7ea279ab",
    since="v0.8.0",
)
def megatron_engine_removed(run: RunConfig) -> str | None:
    """async_engine is set for Megatron's generation, but v0.8.0 has removed it

    Fix: remove policy.generation.mcore_generation_config.async_engine
    """
    is_set = run.at(f"{GENERATION}.backend") == "megatron" and run.at(_ENGINE) is not None
    return f"mcore_generation_config.async_engine is {quoted(run.at(_ENGINE))}" if is_set else None
