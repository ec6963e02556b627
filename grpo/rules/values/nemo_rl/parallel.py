"""The training backend and how it divides the model: DTensor or Megatron, TP, CP, PP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.rules.values.checks import excludes, one_of, quoted
from grpo.rules.values.nemo_rl.run import SETUP, TOPIC, TRAINING, WORKER
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import Effective

_SIZES = f"{DTENSOR}.tensor_parallel_size {DTENSOR}.context_parallel_size"
_STAGES = "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size"
_ROPE = "policy.hf_config_overrides.rope_scaling"

_backends = TOPIC.rule(
    "two-backends",
    "K1",
    f"{MEGATRON}.enabled {DTENSOR}.enabled",
    title="only one training backend is on",
    why=SETUP,
    fix="set policy.dtensor_cfg.enabled to false to train with Megatron, or policy.megatron_cfg.enabled to false",
    source="nemo_rl/models/policy/lm_policy.py:94 at v0.7.0",
)(excludes(f"{MEGATRON}.enabled", f"{DTENSOR}.enabled"))


@TOPIC.rule(
    "no-backend",
    "K2",
    f"{DTENSOR}.enabled {MEGATRON}.enabled",
    title="a training backend is on",
    why=SETUP,
    fix="set policy.dtensor_cfg.enabled or policy.megatron_cfg.enabled to true",
    source="nemo_rl/models/policy/lm_policy.py:129 at v0.7.0",
)
def _no_backend(run: Effective) -> str | None:
    off = not run.on(f"{MEGATRON}.enabled") and not run.on(f"{DTENSOR}.enabled")
    return "neither policy.dtensor_cfg nor policy.megatron_cfg is enabled" if off else None


@TOPIC.rule(
    "draft-backend",
    "K4",
    "policy.draft.enabled",
    title="a draft model is trained by Megatron, without sequence packing",
    why=SETUP,
    fix="turn policy.draft off, or use Megatron without sequence packing",
    source="nemo_rl/models/policy/lm_policy.py:99 at v0.7.0",
    since="v0.6.0",
)
def _draft(run: Effective) -> str | None:
    if not run.on("policy.draft.enabled"):
        return None
    if not is_megatron(run):
        return "policy.draft is enabled, and Megatron is not"
    return "policy.draft and policy.sequence_packing are both enabled" if run.on(PACKING) else None


@TOPIC.rule(
    "lora-needs-v2",
    "K5",
    f"{DTENSOR}._v2 {DTENSOR}.lora_cfg.enabled",
    title="LoRA with DTensor needs its second version",
    why=SETUP,
    fix="set policy.dtensor_cfg._v2 to true, or lora_cfg.enabled to false",
    source="nemo_rl/models/policy/lm_policy.py:147 at v0.7.0",
    since="v0.5.0",
)
def _lora(run: Effective) -> str | None:
    if is_megatron(run) or is_v2(run) or not run.on(f"{DTENSOR}.lora_cfg.enabled"):
        return None
    return "dtensor_cfg.lora_cfg is enabled, and dtensor_cfg._v2 is off"


@TOPIC.rule(
    "replicas-need-v2",
    "K6",
    f"{DTENSOR}.dp_replicate_size",
    title="dp_replicate_size needs the second version of DTensor",
    why=SETUP,
    fix="set policy.dtensor_cfg._v2 to true, or dp_replicate_size to 1",
    source="nemo_rl/models/policy/lm_policy.py:152 at v0.7.0",
    since="v0.7.0",
)
def _replicas(run: Effective) -> str | None:
    if is_megatron(run) or is_v2(run) or run.at(f"{DTENSOR}.dp_replicate_size", 1) == 1:
        return None
    size = run.integer(f"{DTENSOR}.dp_replicate_size")
    return f"dtensor_cfg.dp_replicate_size is {size}, and dtensor_cfg._v2 is off" if size > 1 else None


@TOPIC.rule(
    "replicas-not-dividing",
    "K7",
    f"{DTENSOR}.dp_replicate_size {NODES}",
    title="dp_replicate_size divides the data parallel size",
    why=WORKER,
    fix="choose a dp_replicate_size that divides the data parallel size",
    source="nemo_rl/models/automodel/setup.py:470 at v0.7.0",
    since="v0.7.0",
)
def _replicate(run: Effective) -> str | None:
    if not is_v2(run) or run.at(f"{DTENSOR}.dp_replicate_size", 1) == 1:
        return None
    size, experts = run.integer(f"{DTENSOR}.dp_replicate_size"), run.at(f"{DTENSOR}.expert_parallel_size", 1)
    if size < 1:
        # nemo-rl/parallel-size reports it.
        return None
    shards = data_parallel(run) // (experts if isinstance(experts, int) and experts > 1 else 1)
    return f"data parallel size {shards} is not a multiple of dp_replicate_size {size}" if shards % size else None


@TOPIC.rule(
    "gpus-not-divisible-by-model",
    "K8 K9",
    f"{_SIZES} {NODES}",
    title="the training GPUs are a multiple of TP × CP × PP",
    why=SETUP,
    fix="choose parallel sizes whose product divides the training GPUs, or change the number of nodes",
    source="nemo_rl/models/policy/lm_policy.py:207 at v0.7.0",
)
def _world(run: Effective) -> Iterator[Finding]:
    world = worlds(run)[0]
    parts = tensor_parallel(run), context_parallel(run), pipeline_parallel(run)
    product = parts[0] * parts[1] * parts[2]
    if world % product:
        sizes = f"TP {parts[0]} × CP {parts[1]} × PP {parts[2]} = {product}"
        keys = [f"{MEGATRON}.{name}" for name in _STAGES.split()] if is_megatron(run) else []
        yield Finding(
            f"{world} GPUs train, which is {'less than' if world < product else 'not a multiple of'} {sizes}", keys=keys
        )


@TOPIC.rule(
    "lora-triton",
    "K11",
    f"{DTENSOR}.lora_cfg.use_triton",
    title="LoRA's Triton kernels need tensor parallel size 1",
    why=WORKER,
    fix="set policy.dtensor_cfg.lora_cfg.use_triton to false",
    source="nemo_rl/models/automodel/setup.py:668 at v0.7.0",
    since="v0.5.0",
)
def _triton(run: Effective) -> Iterator[Finding]:
    lora = f"{DTENSOR}.lora_cfg"
    if is_v2(run) and run.on(f"{lora}.enabled") and run.on(f"{lora}.use_triton") and tensor_parallel(run) != 1:
        what = f"lora_cfg.use_triton is on with tensor parallel size {tensor_parallel(run)}"
        yield Finding(what, proposed={f"{lora}.use_triton": False})


_precision = TOPIC.rule(
    "precision",
    "K12",
    "policy.precision",
    title="the precision is one that the workers know",
    why=WORKER,
    fix="write bfloat16, float16 or float32",
    source="nemo_rl/models/automodel/setup.py:288 at v0.7.0",
)(one_of("policy.precision", ("float32", "bfloat16", "float16")))


def _is_refused_gemma(run: Effective) -> bool:
    """Say whether the worker refuses a Gemma 3 model: early versions refuse text models, _v2 those with images."""
    name = str(run.at("policy.model_name")).lower()
    text, images = ("270m", "1b"), ("4b", "12b", "27b")
    sizes = text if not run.since("v0.6.0") else images if is_v2(run) else (*text, *images)
    return any(f"gemma-3-{size}" in name for size in sizes)


@TOPIC.rule(
    "context-parallel-dtensor",
    "K13 K14 K15",
    f"{DTENSOR}.context_parallel_size",
    title="context parallelism with DTensor excludes several other options",
    why=WORKER,
    fix="set policy.dtensor_cfg.context_parallel_size to 1, or turn the other option off",
    source="nemo_rl/models/automodel/setup.py:385 at v0.7.0",
)
def _context(run: Effective) -> str | None:
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


@TOPIC.rule(
    "cpu-offload-one-gpu",
    "K22",
    f"{DTENSOR}.cpu_offload",
    title="CPU offload needs more than one training GPU",
    why=WORKER,
    fix="set policy.dtensor_cfg.cpu_offload to false",
    source="nemo_rl/models/automodel/setup.py:501 at v0.7.0",
    since="v0.6.0",
)
def _offload(run: Effective) -> str | None:
    alone = is_v2(run) and run.on(f"{DTENSOR}.cpu_offload") and worlds(run)[0] == 1
    return "dtensor_cfg.cpu_offload is on, and one GPU trains" if alone else None


@TOPIC.rule(
    "yarn-dtensor",
    "K23",
    _ROPE,
    title="YaRN needs Megatron",
    why=WORKER,
    fix="train with Megatron, or without policy.hf_config_overrides.rope_scaling",
    source="nemo_rl/models/automodel/setup.py:312 at v0.7.0",
    since="v0.6.0",
)
def _yarn(run: Effective) -> str | None:
    return "rope_type is yarn, and DTensor trains" if is_v2(run) and run.at(f"{_ROPE}.rope_type") == "yarn" else None


@TOPIC.rule(
    "yarn-fields",
    "X7",
    _ROPE,
    title="rope_scaling of type yarn has all its fields",
    why=WORKER,
    fix="give all eight fields of rope_scaling",
    source="nemo_rl/models/megatron/setup.py:278 at v0.7.0",
    since="v0.6.0",
)
def _yarn_fields(run: Effective) -> str | None:
    if not is_megatron(run) or run.at(f"{_ROPE}.rope_type") != "yarn":
        return None
    shape = ("factor", "rope_theta", "original_max_position_embeddings", "truncate")
    names = (*shape, "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
    missing = [name for name in names if not run.has(f"{_ROPE}.{name}")]
    return f"rope_scaling is of type yarn and lacks {', '.join(missing)}" if missing else None


@TOPIC.rule(
    "packing-attention",
    "K24",
    f"{DTENSOR}.automodel_kwargs.attn_implementation",
    title="sequence packing needs flash_attention_2",
    why=WORKER,
    fix="write flash_attention_2, or turn sequence packing off",
    source="nemo_rl/models/automodel/setup.py:700 at v0.7.0",
    since="v0.7.0",
)
def _attention(run: Effective) -> str | None:
    path = f"{DTENSOR}.automodel_kwargs.attn_implementation"
    if not is_v2(run) or not run.on(PACKING) or not run.has(path) or run.at(path) == "flash_attention_2":
        return None
    return f"attn_implementation is {quoted(run.at(path))}, and sequence packing is on"


@TOPIC.rule(
    "scheduler-entry",
    "K25",
    "policy.scheduler",
    title="each entry of policy.scheduler has a name or milestones",
    why=WORKER,
    fix="give the entry a name and kwargs, or milestones",
    source="nemo_rl/models/automodel/setup.py:838 at v0.7.0",
)
def _scheduler(run: Effective) -> str | None:
    entries = run.at("policy.scheduler")
    for number, entry in enumerate(entries if isinstance(entries, list) and not is_megatron(run) else (), 1):
        if isinstance(entry, dict) and "name" not in entry and "milestones" not in entry:
            return f"entry {number} of policy.scheduler has neither name nor milestones"
    return None


@TOPIC.rule(
    "reward-model-packing",
    "K26 X6",
    "policy.reward_model_cfg.enabled",
    title="a reward model is trained by DTensor, without sequence packing",
    why=WORKER,
    fix="turn policy.reward_model_cfg off; a GRPO policy is not a reward model",
    source="nemo_rl/models/automodel/setup.py:352 at v0.7.0",
)
def _reward_model(run: Effective) -> str | None:
    if not run.on("policy.reward_model_cfg.enabled"):
        return None
    if is_megatron(run):
        return "policy.reward_model_cfg is enabled, and Megatron trains"
    return "policy.reward_model_cfg and sequence packing are both enabled" if run.on(PACKING) else None


@TOPIC.rule(
    "parallel-plan",
    "K27",
    f"{DTENSOR}.custom_parallel_plan",
    title="a custom parallel plan is given by its import path",
    why=WORKER,
    fix="write package.module.NAME, or null",
    source="nemo_rl/models/dtensor/parallelize.py:684 at v0.7.0",
)
def _plan(run: Effective) -> str | None:
    # With tensor parallel size 1 no plan is read. The second version has one by name.
    reads = not is_megatron(run) and tensor_parallel(run) > 1
    plan = run.at(f"{DTENSOR}.custom_parallel_plan") if reads else None
    fits = plan is None or isinstance(plan, dict) or (isinstance(plan, str) and "." in plan)
    fits = fits or (is_v2(run) and plan == "llama_nemotron_super_tp_plan")
    return None if fits else f"custom_parallel_plan is {quoted(plan)}, which cannot be imported"


@TOPIC.rule(
    "sampling-not-divisible-by-tp",
    "K28",
    "policy.make_sequence_length_divisible_by policy.generation.top_p policy.generation.top_k",
    title="with top-p or top-k, padded sequences are a multiple of the tensor parallel size",
    why=TRAINING,
    fix="set policy.make_sequence_length_divisible_by to the tensor parallel size",
    source="nemo_rl/distributed/model_utils.py:413 at v0.7.0",
    severity=WARNING,
    since="v0.6.0",
)
def _sampled(run: Effective) -> str | None:
    top_k = run.at("policy.generation.top_k")
    filters = run.number("policy.generation.top_p") < 1 or (isinstance(top_k, int) and top_k > 0)
    size, multiple = tensor_parallel(run), run.integer("policy.make_sequence_length_divisible_by")
    if not filters or multiple % size == 0 or run.integer(MICRO_BATCH) % size == 0:
        return None
    return f"sequences are padded to multiples of {multiple}, and the tensor parallel size is {size}"
