"""Generation with vLLM: its parallel sizes, sampling, precision and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import ALLOCATOR_KEYS, expands_segments, quoted, within
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.problems.problem import SYMPTOM
from grpo.values.frameworks.nemo_rl import (
    COLOCATED,
    DTENSOR,
    GENERATION,
    MEGATRON,
    NODES,
    RESOURCES,
    VLLM,
    is_vllm,
    reward_model_nodes,
    worlds,
)
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_TP = f"{VLLM}.tensor_parallel_size"
_PP = f"{VLLM}.pipeline_parallel_size"
_EP = f"{VLLM}.expert_parallel_size"
_ASYNC = f"{VLLM}.async_engine"
_KWARGS = f"{GENERATION}.vllm_kwargs"
_CORRECTION = "loss_fn.use_importance_sampling_correction"
# The arguments that NeMo RL itself passes to vLLM's engine.
RESERVED: Final = (
    *("model", "load_format", "skip_tokenizer_init", "tensor_parallel_size", "dtype", "seed", "logprobs_mode"),
    *("pipeline_parallel_size", "enable_expert_parallel", "gpu_memory_utilization", "enable_prefix_caching"),
    *("enforce_eager", "max_model_len", "trust_remote_code", "worker_extension_cls", "enable_sleep_mode"),
    "disable_log_stats",
)
_FIRST_TOP_K, _FIRST_TOP_P = 8000, 0.99


def _gpus(run: RunConfig) -> int:
    """Return how many of a node's GPUs generate."""
    nodes, gpus = reward_model_nodes(run)
    if run.on(COLOCATED):
        return run.gpus - (gpus if run.nodes == 1 else 0)
    return run.integer(f"{RESOURCES}.gpus_per_node") if run.nodes in (1, nodes + 1) else run.gpus


@TOPIC.problem(
    f"{_TP} {_PP} {NODES}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/generation/vllm/vllm_generation.py:110 at v0.7.0",
    logs="World size must be a multiple of model parallel size",
)
def generation_gpus_not_divisible(run: RunConfig) -> str | None:
    """the GPUs that generate, in total or on one node, are not a multiple of vLLM's TP × PP

    Fix: choose a tensor_parallel_size that divides the GPUs of a node
    """
    world, size = worlds(run)[1], run.integer(_TP) * run.integer(_PP)
    if not is_vllm(run) or size < 1:
        return None
    parts = f"vLLM's TP {run.integer(_TP)} × PP {run.integer(_PP)} = {size}"
    if world % size:
        return f"{world} GPUs generate, which is not a multiple of {parts}"
    gpus = _gpus(run)
    uneven = size <= gpus and gpus % size
    return f"a node has {gpus} GPUs for generation, which is not a multiple of {parts}" if uneven else None


@TOPIC.problem(
    f"{_ASYNC} {_PP}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/generation/vllm/vllm_generation.py:118 at v0.7.0",
    logs="When pipeline_parallel_size > 1, async_engine must be set to True in the vLLM co",
)
def pipeline_needs_async_engine(run: RunConfig) -> Iterator[Finding]:
    """vLLM has several pipeline stages, but the asynchronous engine is off

    Fix: set policy.generation.vllm_cfg.async_engine to true
    """
    if is_vllm(run) and run.integer(_PP) > 1 and not run.on(_ASYNC):
        what = f"vllm_cfg.pipeline_parallel_size is {run.integer(_PP)}, and async_engine is off"
        yield Finding(what, proposed={_ASYNC: True})


@TOPIC.problem(
    f"{_EP} {_ASYNC}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/generation/vllm/vllm_generation.py:124 at v0.7.0",
    logs="When EP > 1, EP must be a multiple of TP since vLLM's EP = DP * TP",
)
def expert_parallel_generation(run: RunConfig) -> str | None:
    """vLLM's expert parallel size does not match its tensor parallel size

    Fix: set expert_parallel_size to 1 or a multiple of tensor_parallel_size; if it is larger, turn async_engine off
    """
    experts, size = run.integer(_EP), run.integer(_TP)
    if not is_vllm(run) or experts <= 1 or size < 1 or experts == size:
        return None
    if experts % size:
        return f"vllm_cfg.expert_parallel_size {experts} is not a multiple of tensor_parallel_size {size}"
    on = run.on(_ASYNC)
    return f"expert_parallel_size {experts} is not tensor_parallel_size {size}, and async_engine is on" if on else None


@TOPIC.problem(
    f"{GENERATION}.top_k",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/generation/vllm/vllm_generation.py:139 at v0.7.0",
    logs="top_k valid values: i) None or -1: no filtering",
)
def top_k(run: RunConfig) -> str | None:
    """top_k is a number that this version cannot sample with

    Fix: use null, -1, or 1 or more (8000 or more before v0.6.0)
    """
    value, least = run.at(f"{GENERATION}.top_k"), 1 if run.since("v0.6.0") else _FIRST_TOP_K
    if not is_vllm(run) or not isinstance(value, int) or value == -1 or value >= least:
        return None
    return f"top_k is {value}, expected null, -1, or {least} or more"


@TOPIC.problem(
    f"{GENERATION}.top_p",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/generation/vllm/vllm_generation.py:145 at v0.7.0",
    logs="top_p valid values: i) 1.0: no filtering",
)
def top_p(run: RunConfig) -> str | None:
    """top_p is a value that this version cannot sample with

    Fix: use 1.0, or a number above 0 (0.99 or more before v0.6.0)
    """
    value = run.number(f"{GENERATION}.top_p")
    if not is_vllm(run):
        return None
    if not run.since("v0.6.0"):
        return f"top_p is {value}, expected {_FIRST_TOP_P} or more" if value < _FIRST_TOP_P else None
    return f"top_p is {value}, expected more than 0 and at most 1" if value <= 0 or value > 1 else None


@TOPIC.problem(_KWARGS, fails=Fails.AT_LOADING, source="nemo_rl/models/generation/vllm/vllm_worker.py:456 at v0.7.0")
def vllm_argument_twice(run: RunConfig) -> Iterator[Finding]:
    """vllm_kwargs has an argument that NeMo RL passes itself

    Fix: move it to policy.generation.vllm_cfg, or remove it
    """
    given = run.at(_KWARGS)
    for name in given if isinstance(given, dict) and is_vllm(run) else ():
        if name in RESERVED or (name == "served_model_name" and run.since("v0.5.0")):
            yield Finding(
                f"NeMo RL itself passes {name} to vLLM, and vllm_kwargs has it too", keys=[f"{_KWARGS}.{name}"]
            )


_interval = within(f"{VLLM}.vllm_metrics_logger_interval", above=0)


@TOPIC.problem(
    f"{VLLM}.vllm_metrics_logger_interval",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/generation/vllm/vllm_worker_async.py:350 at v0.7.0",
    since="v0.5.0",
    logs="vllm_metrics_logger_interval must be a positive float, got",
)
def metrics_interval(run: RunConfig) -> str | None:
    """the interval of vLLM's metrics is not above 0 s

    Fix: set it to 0.5, the default, or turn enable_vllm_metrics_logger off
    """
    return _interval(run) if run.on(_ASYNC) and run.on(f"{VLLM}.enable_vllm_metrics_logger") else None


@TOPIC.problem(
    f"{_CORRECTION} {VLLM}.precision",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:1000 at v0.7.0",
    logs="Importance sampling must be enabled for vLLM FP8 generation for good convergence",
)
def fp8_generation(run: RunConfig) -> Iterator[Finding]:
    """generation uses FP8, but importance sampling correction is off

    Fix: set loss_fn.use_importance_sampling_correction to true
    """
    if is_vllm(run) and run.at(f"{VLLM}.precision") == "fp8" and not run.on(_CORRECTION):
        yield Finding(
            "vllm_cfg.precision is fp8, and use_importance_sampling_correction is off", proposed={_CORRECTION: True}
        )


@TOPIC.problem(
    f"{VLLM}.kv_cache_dtype",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:1005 at v0.7.0",
    since="v0.5.0",
    logs="requires precision='fp8'",
)
def fp8_cache(run: RunConfig) -> str | None:
    """the KV cache is FP8, but another setting excludes that

    Fix: set policy.generation.vllm_cfg.kv_cache_dtype to auto, or change the other setting
    """
    kind = str(run.at(f"{VLLM}.kv_cache_dtype"))
    if not is_vllm(run) or not kind.startswith("fp8"):
        return None
    if run.at(f"{VLLM}.precision") != "fp8":
        return f"kv_cache_dtype is {kind}, and vllm_cfg.precision is {quoted(run.at(f'{VLLM}.precision'))}"
    if run.on(f"{DTENSOR}.enabled"):
        return f"kv_cache_dtype is {kind}, and DTensor trains"
    if run.on(_ASYNC):
        return f"kv_cache_dtype is {kind}, and async_engine is on"
    stages = run.integer(f"{MEGATRON}.pipeline_model_parallel_size")
    return f"kv_cache_dtype is {kind}, and Megatron has {stages} pipeline stages" if stages != 1 else None


@TOPIC.problem(
    f"data.max_input_seq_length {VLLM}.max_model_len policy.max_total_sequence_length",
    fails=Fails.LATER,
    source="nemo_rl/models/generation/vllm/vllm_worker_async.py:538 at v0.7.0",
    severity=WARNING,
    # A warning of each long conversation, which a run survives.
    logs="fills or exceeds max_model_len",
    place=SYMPTOM,
)
def prompt_longer_than_model(run: RunConfig) -> Iterator[Finding]:
    """the lengths of prompt, answer, vLLM's context and training sequences do not fit together

    Why: a prompt as long as the context leaves no token for the answer, so there is no reward, or vLLM fails
    Fix: set all lengths to ${policy.max_total_sequence_length}, and the prompt's to less
    """
    if not is_vllm(run):
        return
    model, prompt = run.integer(f"{VLLM}.max_model_len"), run.integer("data.max_input_seq_length")
    total, new = run.integer("policy.max_total_sequence_length"), run.integer(f"{GENERATION}.max_new_tokens")
    if prompt > model:
        keys = ["data.max_input_seq_length", f"{VLLM}.max_model_len", "policy.max_total_sequence_length"]
        if run.is_later(keys[1], keys[0]):
            keys = [keys[1], keys[0], keys[2]]
        yield Finding(f"max_input_seq_length {prompt} is more than vLLM's max_model_len {model}", keys=keys)
    if model > total:
        keys = [f"{VLLM}.max_model_len", "policy.max_total_sequence_length"]
        yield Finding(
            f"vLLM's max_model_len {model} is more than max_total_sequence_length {total} that is trained", keys=keys
        )
    if new > model:
        yield Finding(
            f"max_new_tokens {new} is more than vLLM's max_model_len {model}",
            keys=[f"{GENERATION}.max_new_tokens", f"{VLLM}.max_model_len"],
            why="vLLM cuts an answer where its context is full, and an answer without its end has no reward",
            fix=f"lower max_new_tokens to {model} or less, or raise policy.max_total_sequence_length",
        )


@TOPIC.problem(
    f"{_KWARGS}.block_size policy.model_name",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/generation/vllm/vllm_worker.py:420 at v0.5.0",
    since="v0.5.0",
    before="v0.7.0",
)
def flashinfer_block_size(run: RunConfig) -> Iterator[Finding]:
    """a small Gemma 3 model on Blackwell has a block size other than 32

    Why: these vLLM versions fail with an error from FlashInfer for head size 256 and block size 16
    Fix: set policy.generation.vllm_kwargs.block_size to 32
    """
    name = str(run.at("policy.model_name")).lower()
    small = is_vllm(run) and any(f"gemma-3-{size}b" in name for size in ("1", "4", "12"))
    is_blackwell = run.value("accelerator.gpuArchitecture") == "blackwell"
    if small and is_blackwell and run.at(f"{_KWARGS}.block_size") != 32:
        given = quoted(run.at(f"{_KWARGS}.block_size"))
        what = f"{run.at('policy.model_name')} on {run.accelerator} with block_size {given}"
        yield Finding(what, proposed={f"{_KWARGS}.block_size": 32})


@TOPIC.problem(
    f"{VLLM}.load_format",
    fails=Fails.SILENT,
    source="nemo_rl/models/generation/__init__.py:48 at v0.7.0",
    severity=WARNING,
)
def load_format(run: RunConfig) -> str | None:
    """vLLM's load_format is set, but NeMo RL chooses it

    Why: NeMo RL overwrites the value at setup
    Fix: remove the key, which has no effect
    """
    given = is_vllm(run) and run.given_has(f"{VLLM}.load_format")
    return "vllm_cfg.load_format is overwritten" if given else None


@TOPIC.problem(
    ALLOCATOR_KEYS, fails=Fails.AT_LOADING, source="nemo_rl/models/generation/vllm/vllm_worker.py:452 at v0.7.0"
)
def expandable_segments(run: RunConfig) -> Iterator[Finding]:
    """expandable segments are on, but the sleep mode of NeMo RL's vLLM does not support them

    Why: NeMo RL always turns on vLLM's sleep mode, so vLLM rejects them when it loads the model, even on separate GPUs
    Fix: remove expandable_segments:True from PYTORCH_CUDA_ALLOC_CONF
    """
    key = expands_segments(run)
    if key and is_vllm(run):
        vllm = f"vLLM {run.catalogue.vllm}"
        what = f"PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True, which the sleep mode of {vllm} refuses"
        yield Finding(what, keys=[key])
