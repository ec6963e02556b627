"""The training backend and how it divides the model: DTensor or Megatron, TP, CP, PP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import excludes, one_of, quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import (
    DTENSOR,
    MEGATRON,
    MICRO_BATCH,
    NODES,
    PACKING,
    context_parallel,
    data_parallel,
    is_megatron,
    is_v2,
    pipeline_parallel,
    tensor_parallel,
    worlds,
)
from postrender.finding import WARNING, Finding
from postrender.problem import Fails, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_SIZES = f"{DTENSOR}.tensor_parallel_size {DTENSOR}.context_parallel_size"
_STAGES = "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size"
_ROPE = "policy.hf_config_overrides.rope_scaling"


@TOPIC.problem(
    f"{MEGATRON}.enabled {DTENSOR}.enabled",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:94 at v0.7.0",
    logs="Configure either Megatron (policy.megatron_cfg.enabled=true) or DTensor (policy.",
)
def two_backends(run: RunConfig) -> Verdict:
    """two training backends are on

    Fix: set policy.dtensor_cfg.enabled to false to train with Megatron, or policy.megatron_cfg.enabled to false
    """
    return excludes(f"{MEGATRON}.enabled", f"{DTENSOR}.enabled")(run)


@TOPIC.problem(
    f"{DTENSOR}.enabled {MEGATRON}.enabled",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:129 at v0.7.0",
    logs="Please either set policy.megatron_cfg.enabled=true to use Megatron training back",
)
def no_backend(run: RunConfig) -> str | None:
    """no training backend is on

    Fix: set policy.dtensor_cfg.enabled or policy.megatron_cfg.enabled to true
    """
    off = not run.on(f"{MEGATRON}.enabled") and not run.on(f"{DTENSOR}.enabled")
    return "neither policy.dtensor_cfg nor policy.megatron_cfg is enabled" if off else None


@TOPIC.problem(
    "policy.draft.enabled",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:99 at v0.7.0",
    since="v0.6.0",
    logs="policy.draft.enabled=true is only supported with the Megatron backend",
)
def draft_backend(run: RunConfig) -> str | None:
    """a draft model is on without Megatron, or with sequence packing

    Fix: turn policy.draft off, or use Megatron without sequence packing
    """
    if not run.on("policy.draft.enabled"):
        return None
    if not is_megatron(run):
        return "policy.draft is enabled, and Megatron is not"
    return "policy.draft and policy.sequence_packing are both enabled" if run.on(PACKING) else None


@TOPIC.problem(
    f"{DTENSOR}._v2 {DTENSOR}.lora_cfg.enabled",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:147 at v0.7.0",
    since="v0.5.0",
    logs="LoRA is not supported for DTensorPolicyWorker V1",
)
def lora_needs_v2(run: RunConfig) -> str | None:
    """LoRA with DTensor is on, but dtensor_cfg._v2 is off

    Fix: set policy.dtensor_cfg._v2 to true, or lora_cfg.enabled to false
    """
    if is_megatron(run) or is_v2(run) or not run.on(f"{DTENSOR}.lora_cfg.enabled"):
        return None
    return "dtensor_cfg.lora_cfg is enabled, and dtensor_cfg._v2 is off"


@TOPIC.problem(
    f"{DTENSOR}.dp_replicate_size",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:152 at v0.7.0",
    since="v0.7.0",
    logs="dp_replicate_size > 1 requires policy.dtensor_cfg._v2: true (Automodel DTensor v",
)
def replicas_need_v2(run: RunConfig) -> str | None:
    """dp_replicate_size is above 1, but DTensor's second version is off

    Fix: set policy.dtensor_cfg._v2 to true, or dp_replicate_size to 1
    """
    if is_megatron(run) or is_v2(run) or run.at(f"{DTENSOR}.dp_replicate_size", 1) == 1:
        return None
    size = run.integer(f"{DTENSOR}.dp_replicate_size")
    return f"dtensor_cfg.dp_replicate_size is {size}, and dtensor_cfg._v2 is off" if size > 1 else None


@TOPIC.problem(
    f"{DTENSOR}.dp_replicate_size {NODES}",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:470 at v0.7.0",
    since="v0.7.0",
)
def replicas_not_dividing(run: RunConfig) -> str | None:
    """dp_replicate_size does not divide the data parallel size

    Fix: choose a dp_replicate_size that divides the data parallel size
    """
    if not is_v2(run) or run.at(f"{DTENSOR}.dp_replicate_size", 1) == 1:
        return None
    size, experts = run.integer(f"{DTENSOR}.dp_replicate_size"), run.at(f"{DTENSOR}.expert_parallel_size", 1)
    if size < 1:
        # nemo-rl/parallel-size reports it.
        return None
    shards = data_parallel(run) // (experts if isinstance(experts, int) and experts > 1 else 1)
    return f"data parallel size {shards} is not a multiple of dp_replicate_size {size}" if shards % size else None


@TOPIC.problem(
    f"{_SIZES} {NODES}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:207 at v0.7.0",
    logs="The data parallel size (DP = world_size / (PP * CP * TP)) must be a positive int",
)
def gpus_not_divisible_by_model(run: RunConfig) -> Iterator[Finding]:
    """the training GPUs are not a multiple of TP × CP × PP

    Fix: choose parallel sizes whose product divides the training GPUs, or change the number of nodes
    """
    world = worlds(run)[0]
    parts = tensor_parallel(run), context_parallel(run), pipeline_parallel(run)
    product = parts[0] * parts[1] * parts[2]
    if world % product:
        sizes = f"TP {parts[0]} × CP {parts[1]} × PP {parts[2]} = {product}"
        keys = [f"{MEGATRON}.{name}" for name in _STAGES.split()] if is_megatron(run) else []
        yield Finding(
            f"{world} GPUs train, which is {'less than' if world < product else 'not a multiple of'} {sizes}", keys=keys
        )


@TOPIC.problem(
    f"{DTENSOR}.lora_cfg.use_triton",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:668 at v0.7.0",
    since="v0.5.0",
    logs="Triton is not supported when tensor_parallel_size > 1",
)
def lora_triton(run: RunConfig) -> Iterator[Finding]:
    """LoRA's Triton kernels are on with tensor parallelism

    Fix: set policy.dtensor_cfg.lora_cfg.use_triton to false
    """
    lora = f"{DTENSOR}.lora_cfg"
    if is_v2(run) and run.on(f"{lora}.enabled") and run.on(f"{lora}.use_triton") and tensor_parallel(run) != 1:
        what = f"lora_cfg.use_triton is on with tensor parallel size {tensor_parallel(run)}"
        yield Finding(what, proposed={f"{lora}.use_triton": False})


@TOPIC.problem(
    "policy.precision",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:288 at v0.7.0",
    logs="Unknown precision",
)
def precision(run: RunConfig) -> Verdict:
    """policy.precision is unknown to the workers

    Fix: use bfloat16, float16 or float32
    """
    return one_of("policy.precision", ("float32", "bfloat16", "float16"))(run)


def _is_refused_gemma(run: RunConfig) -> bool:
    """Return whether the worker rejects a Gemma 3 model: early versions reject text models, _v2 those with images."""
    name = str(run.at("policy.model_name")).lower()
    text, images = ("270m", "1b"), ("4b", "12b", "27b")
    sizes = text if not run.since("v0.6.0") else images if is_v2(run) else (*text, *images)
    return any(f"gemma-3-{size}" in name for size in sizes)


@TOPIC.problem(
    f"{DTENSOR}.context_parallel_size",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:385 at v0.7.0",
    logs="Context parallel is not supported for sequence packing",
)
def context_parallel_dtensor(run: RunConfig) -> str | None:
    """DTensor's context parallelism is on with a model or an option that it does not support

    Fix: set policy.dtensor_cfg.context_parallel_size to 1, or turn the other option off
    """
    if is_megatron(run) or context_parallel(run) == 1:
        return None
    size = f"dtensor_cfg.context_parallel_size is {context_parallel(run)}"
    if run.on(PACKING):
        return f"{size}, and sequence packing is on"
    if _is_refused_gemma(run):
        return f"{size}, which Gemma 3 does not support"
    if tensor_parallel(run) > 1 and run.on(f"{DTENSOR}.sequence_parallel"):
        return f"{size}, and sequence_parallel is on with tensor parallel size {tensor_parallel(run)}"
    return None


@TOPIC.problem(
    f"{DTENSOR}.cpu_offload",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:501 at v0.7.0",
    since="v0.6.0",
    logs="CPUOffload doesn't work on single GPU for AutoModel",
)
def cpu_offload_one_gpu(run: RunConfig) -> str | None:
    """CPU offload is on, but only one GPU trains

    Fix: set policy.dtensor_cfg.cpu_offload to false
    """
    alone = is_v2(run) and run.on(f"{DTENSOR}.cpu_offload") and worlds(run)[0] == 1
    return "dtensor_cfg.cpu_offload is on, and one GPU trains" if alone else None


@TOPIC.problem(
    _ROPE,
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:312 at v0.7.0",
    since="v0.6.0",
    logs="YaRN RoPE scaling is not supported with the automodel (DTensor) backend",
)
def yarn_dtensor(run: RunConfig) -> str | None:
    """rope_scaling is of type yarn, but DTensor trains

    Fix: train with Megatron, or without policy.hf_config_overrides.rope_scaling
    """
    return "rope_type is yarn, and DTensor trains" if is_v2(run) and run.at(f"{_ROPE}.rope_type") == "yarn" else None


@TOPIC.problem(
    _ROPE,
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/megatron/setup.py:278 at v0.7.0",
    since="v0.6.0",
    logs="rope_scaling.rope_type is 'yarn' but the following required fields are not set",
)
def yarn_fields(run: RunConfig) -> str | None:
    """rope_scaling of type yarn lacks a field

    Fix: set all eight fields of rope_scaling
    """
    if not is_megatron(run) or run.at(f"{_ROPE}.rope_type") != "yarn":
        return None
    shape = ("factor", "rope_theta", "original_max_position_embeddings", "truncate")
    names = (*shape, "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
    missing = [name for name in names if not run.has(f"{_ROPE}.{name}")]
    return f"rope_scaling is of type yarn and lacks {', '.join(missing)}" if missing else None


@TOPIC.problem(
    f"{DTENSOR}.automodel_kwargs.attn_implementation",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:700 at v0.7.0",
    since="v0.7.0",
    logs="sequence_packing requires attn_implementation='flash_attention_2', but the recip",
)
def packing_attention(run: RunConfig) -> str | None:
    """sequence packing is on, but attn_implementation is not flash_attention_2

    Fix: use flash_attention_2, or turn sequence packing off
    """
    path = f"{DTENSOR}.automodel_kwargs.attn_implementation"
    if not is_v2(run) or not run.on(PACKING) or not run.has(path) or run.at(path) == "flash_attention_2":
        return None
    return f"attn_implementation is {quoted(run.at(path))}, and sequence packing is on"


@TOPIC.problem("policy.scheduler", fails=Fails.AT_LOADING, source="nemo_rl/models/automodel/setup.py:838 at v0.7.0")
def scheduler_entry(run: RunConfig) -> str | None:
    """an entry of policy.scheduler has neither a name nor milestones

    Fix: give the entry a name and kwargs, or milestones
    """
    entries = run.at("policy.scheduler")
    for number, entry in enumerate(entries if isinstance(entries, list) and not is_megatron(run) else (), 1):
        if isinstance(entry, dict) and "name" not in entry and "milestones" not in entry:
            return f"entry {number} of policy.scheduler has neither name nor milestones"
    return None


@TOPIC.problem(
    "policy.reward_model_cfg.enabled",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:352 at v0.7.0",
    logs="Sequence packing is not supported for reward models",
)
def reward_model_packing(run: RunConfig) -> str | None:
    """policy.reward_model_cfg is on with Megatron or with sequence packing

    Fix: turn policy.reward_model_cfg off; a GRPO policy is not a reward model
    """
    if not run.on("policy.reward_model_cfg.enabled"):
        return None
    if is_megatron(run):
        return "policy.reward_model_cfg is enabled, and Megatron trains"
    return "policy.reward_model_cfg and sequence packing are both enabled" if run.on(PACKING) else None


@TOPIC.problem(
    f"{DTENSOR}.custom_parallel_plan",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/dtensor/parallelize.py:684 at v0.7.0",
    logs="` which is not valid",
)
def parallel_plan(run: RunConfig) -> str | None:
    """custom_parallel_plan is not an importable path

    Fix: use package.module.NAME, or null
    """
    # With tensor parallel size 1 no plan is read. The second version has one by name.
    reads = not is_megatron(run) and tensor_parallel(run) > 1
    plan = run.at(f"{DTENSOR}.custom_parallel_plan") if reads else None
    fits = plan is None or isinstance(plan, dict) or (isinstance(plan, str) and "." in plan)
    fits = fits or (is_v2(run) and plan == "llama_nemotron_super_tp_plan")
    return None if fits else f"custom_parallel_plan is {quoted(plan)}, which cannot be imported"


@TOPIC.problem(
    "policy.make_sequence_length_divisible_by policy.generation.top_p policy.generation.top_k",
    fails=Fails.LATER,
    source="nemo_rl/distributed/model_utils.py:413 at v0.7.0",
    severity=WARNING,
    since="v0.6.0",
    logs="when using top-p/top-k sampling",
)
def sampling_not_divisible_by_tp(run: RunConfig) -> str | None:
    """top-p or top-k is on, but the padded sequence length is not a multiple of the tensor parallel size

    Fix: set policy.make_sequence_length_divisible_by to the tensor parallel size
    """
    top_k = run.at("policy.generation.top_k")
    filters = run.number("policy.generation.top_p") < 1 or (isinstance(top_k, int) and top_k > 0)
    size, multiple = tensor_parallel(run), run.integer("policy.make_sequence_length_divisible_by")
    if not filters or multiple % size == 0 or run.integer(MICRO_BATCH) % size == 0:
        return None
    return f"sequences are padded to multiples of {multiple}, and the tensor parallel size is {size}"
