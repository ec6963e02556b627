"""Generation by vLLM: its parallel sizes, sampling, precision and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.rules.values.checks import ALLOCATOR_KEYS, expands_segments, quoted, within
from grpo.rules.values.nemo_rl.run import SETUP, TOPIC, WORKER
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import Effective

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


def _gpus(run: Effective) -> int:
    """Return how many GPUs of a node generate."""
    nodes, gpus = reward_model_nodes(run)
    if run.on(COLOCATED):
        return run.gpus - (gpus if run.nodes == 1 else 0)
    return run.integer(f"{RESOURCES}.gpus_per_node") if run.nodes in (1, nodes + 1) else run.gpus


@TOPIC.rule(
    "generation-gpus-not-divisible",
    "V1 V5",
    f"{_TP} {_PP} {NODES}",
    title="the generation GPUs, of all nodes and of each node, are a multiple of vLLM's TP × PP",
    why=SETUP,
    fix="choose a tensor_parallel_size that divides the GPUs of a node",
    source="nemo_rl/models/generation/vllm/vllm_generation.py:110 at v0.7.0",
)
def _engines(run: Effective) -> str | None:
    world, size = worlds(run)[1], run.integer(_TP) * run.integer(_PP)
    if not is_vllm(run) or size < 1:
        return None
    parts = f"vLLM's TP {run.integer(_TP)} × PP {run.integer(_PP)} = {size}"
    if world % size:
        return f"{world} GPUs generate, which is not a multiple of {parts}"
    gpus = _gpus(run)
    uneven = size <= gpus and gpus % size
    return f"a node has {gpus} GPUs for generation, which is not a multiple of {parts}" if uneven else None


@TOPIC.rule(
    "pipeline-needs-async-engine",
    "V2",
    f"{_ASYNC} {_PP}",
    title="pipeline parallel generation needs the asynchronous engine",
    why=SETUP,
    fix="set policy.generation.vllm_cfg.async_engine to true",
    source="nemo_rl/models/generation/vllm/vllm_generation.py:118 at v0.7.0",
)
def _pipeline(run: Effective) -> Iterator[Finding]:
    if is_vllm(run) and run.integer(_PP) > 1 and not run.on(_ASYNC):
        what = f"vllm_cfg.pipeline_parallel_size is {run.integer(_PP)}, and async_engine is off"
        yield Finding(what, proposed={_ASYNC: True})


@TOPIC.rule(
    "expert-parallel-generation",
    "V3 V4",
    f"{_EP} {_ASYNC}",
    title="vLLM's expert parallel size is 1, or a multiple of its tensor parallel size",
    why=SETUP,
    fix="set expert_parallel_size to 1 or to a multiple of tensor_parallel_size; if larger than it, async_engine off",
    source="nemo_rl/models/generation/vllm/vllm_generation.py:124 at v0.7.0",
)
def _experts(run: Effective) -> str | None:
    experts, size = run.integer(_EP), run.integer(_TP)
    if not is_vllm(run) or experts <= 1 or size < 1 or experts == size:
        return None
    if experts % size:
        return f"vllm_cfg.expert_parallel_size {experts} is not a multiple of tensor_parallel_size {size}"
    on = run.on(_ASYNC)
    return f"expert_parallel_size {experts} is not tensor_parallel_size {size}, and async_engine is on" if on else None


@TOPIC.rule(
    "top-k",
    "V6",
    f"{GENERATION}.top_k",
    title="top_k is null, -1, or a number that this version can sample with",
    why=SETUP,
    fix="write null, -1, or 1 or more (8000 or more before v0.6.0)",
    source="nemo_rl/models/generation/vllm/vllm_generation.py:139 at v0.7.0",
)
def _top_k(run: Effective) -> str | None:
    value, least = run.at(f"{GENERATION}.top_k"), 1 if run.since("v0.6.0") else _FIRST_TOP_K
    if not is_vllm(run) or not isinstance(value, int) or value == -1 or value >= least:
        return None
    return f"top_k is {value}, expected null, -1, or {least} or more"


@TOPIC.rule(
    "top-p",
    "V7",
    f"{GENERATION}.top_p",
    title="top_p is a value that this version can sample with",
    why=SETUP,
    fix="write 1.0, or a number above 0 (0.99 or more before v0.6.0)",
    source="nemo_rl/models/generation/vllm/vllm_generation.py:145 at v0.7.0",
)
def _top_p(run: Effective) -> str | None:
    value = run.number(f"{GENERATION}.top_p")
    if not is_vllm(run):
        return None
    if not run.since("v0.6.0"):
        return f"top_p is {value}, expected {_FIRST_TOP_P} or more" if value < _FIRST_TOP_P else None
    return f"top_p is {value}, expected more than 0 and at most 1" if value <= 0 or value > 1 else None


@TOPIC.rule(
    "vllm-argument-twice",
    "V11",
    _KWARGS,
    title="vllm_kwargs has no argument that NeMo RL passes itself",
    why=WORKER,
    fix="write it under policy.generation.vllm_cfg, or remove it",
    source="nemo_rl/models/generation/vllm/vllm_worker.py:456 at v0.7.0",
)
def _twice(run: Effective) -> Iterator[Finding]:
    given = run.at(_KWARGS)
    for name in given if isinstance(given, dict) and is_vllm(run) else ():
        if name in RESERVED or (name == "served_model_name" and run.since("v0.5.0")):
            yield Finding(
                f"NeMo RL itself passes {name} to vLLM, and vllm_kwargs has it too", keys=[f"{_KWARGS}.{name}"]
            )


_interval = within(f"{VLLM}.vllm_metrics_logger_interval", above=0)


@TOPIC.rule(
    "metrics-interval",
    "V12",
    f"{VLLM}.vllm_metrics_logger_interval",
    title="the interval of vLLM's metrics is more than 0 s",
    why=WORKER,
    fix="write 0.5, the default, or turn enable_vllm_metrics_logger off",
    source="nemo_rl/models/generation/vllm/vllm_worker_async.py:350 at v0.7.0",
    since="v0.5.0",
)
def _metrics(run: Effective) -> str | None:
    return _interval(run) if run.on(_ASYNC) and run.on(f"{VLLM}.enable_vllm_metrics_logger") else None


@TOPIC.rule(
    "fp8-generation",
    "V13",
    f"{_CORRECTION} {VLLM}.precision",
    title="generation in FP8 needs importance sampling correction",
    why=SETUP,
    fix="set loss_fn.use_importance_sampling_correction to true",
    source="nemo_rl/algorithms/grpo.py:1000 at v0.7.0",
)
def _fp8(run: Effective) -> Iterator[Finding]:
    if is_vllm(run) and run.at(f"{VLLM}.precision") == "fp8" and not run.on(_CORRECTION):
        yield Finding(
            "vllm_cfg.precision is fp8, and use_importance_sampling_correction is off", proposed={_CORRECTION: True}
        )


@TOPIC.rule(
    "fp8-cache",
    "V14 V15 V16 V17",
    f"{VLLM}.kv_cache_dtype",
    title="an FP8 KV cache needs FP8 weights, Megatron without pipeline stages, and the synchronous engine",
    why=SETUP,
    fix="set policy.generation.vllm_cfg.kv_cache_dtype to auto, or change the other setting",
    source="nemo_rl/algorithms/grpo.py:1005 at v0.7.0",
    since="v0.5.0",
)
def _cache(run: Effective) -> str | None:
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


@TOPIC.rule(
    "prompt-longer-than-model",
    "V20 W10",
    f"data.max_input_seq_length {VLLM}.max_model_len policy.max_total_sequence_length",
    title="prompt and answer fit into vLLM's context",
    why="a prompt as long as the context leaves no token for the answer: no reward, or an error from vLLM",
    fix="set all lengths to ${policy.max_total_sequence_length}, and the prompt's to less",
    source="nemo_rl/models/generation/vllm/vllm_worker_async.py:538 at v0.7.0",
    severity=WARNING,
)
def _lengths(run: Effective) -> Iterator[Finding]:
    if not is_vllm(run):
        return
    model, prompt = run.integer(f"{VLLM}.max_model_len"), run.integer("data.max_input_seq_length")
    total, new = run.integer("policy.max_total_sequence_length"), run.integer(f"{GENERATION}.max_new_tokens")
    if prompt > model:
        yield Finding(f"max_input_seq_length {prompt} is more than vLLM's max_model_len {model}")
    if model > total:
        keys = [f"{VLLM}.max_model_len", "policy.max_total_sequence_length"]
        yield Finding(
            f"vLLM's max_model_len {model} is more than max_total_sequence_length {total} that is trained", keys=keys
        )
    if new > model:
        yield Finding(
            f"max_new_tokens {new} is more than vLLM's max_model_len {model}",
            keys=[f"{GENERATION}.max_new_tokens"],
            why="silent: vLLM cuts an answer where its context is full, and an answer without its end has no reward",
            fix=f"lower max_new_tokens to {model} or less, or raise policy.max_total_sequence_length",
        )


@TOPIC.rule(
    "flashinfer-block-size",
    "P1",
    f"{_KWARGS}.block_size policy.model_name",
    title="small Gemma 3 models on Blackwell use block size 32",
    why="vLLM of these versions fails with an error from FlashInfer for head size 256 and block size 16",
    fix="set policy.generation.vllm_kwargs.block_size to 32",
    source="nemo_rl/models/generation/vllm/vllm_worker.py:420 at v0.5.0",
    since="v0.5.0",
    before="v0.7.0",
)
def _blocks(run: Effective) -> Iterator[Finding]:
    name = str(run.at("policy.model_name")).lower()
    small = is_vllm(run) and any(f"gemma-3-{size}b" in name for size in ("1", "4", "12"))
    is_blackwell = run.value("accelerator.gpuArchitecture") == "blackwell"
    if small and is_blackwell and run.at(f"{_KWARGS}.block_size") != 32:
        given = quoted(run.at(f"{_KWARGS}.block_size"))
        what = f"{run.at('policy.model_name')} on {run.accelerator} with block_size {given}"
        yield Finding(what, proposed={f"{_KWARGS}.block_size": 32})


@TOPIC.rule(
    "load-format",
    "W5",
    f"{VLLM}.load_format",
    title="NeMo RL chooses vLLM's load_format itself",
    why="silent: NeMo RL overwrites the value at set-up",
    fix="remove the key, which has no effect",
    source="nemo_rl/models/generation/__init__.py:48 at v0.7.0",
    severity=WARNING,
)
def _load_format(run: Effective) -> str | None:
    given = is_vllm(run) and run.given_has(f"{VLLM}.load_format")
    return "vllm_cfg.load_format is overwritten" if given else None


@TOPIC.rule(
    "expandable-segments",
    "P2",
    ALLOCATOR_KEYS,
    title="vLLM runs without expandable segments, which its sleep mode refuses",
    why="vLLM refuses it when it loads the model, also on GPUs of its own: NeMo RL always turns its sleep mode on",
    fix="remove expandable_segments:True from PYTORCH_CUDA_ALLOC_CONF",
    source="nemo_rl/models/generation/vllm/vllm_worker.py:452 at v0.7.0",
)
def _segments(run: Effective) -> Iterator[Finding]:
    key = expands_segments(run)
    if key and is_vllm(run):
        vllm = f"vLLM {run.catalogue.vllm}"
        what = f"PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True, which the sleep mode of {vllm} refuses"
        yield Finding(what, keys=[key])
