"""What the model's config.json requires of parallel sizes and lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.rules.values.nemo_rl.run import TOPIC, WORKER
from grpo.values.frameworks.model import Model, allows_longer, no_experts, uneven_heads
from grpo.values.frameworks.nemo_rl import (
    DTENSOR,
    GENERATION,
    MEGATRON,
    VLLM,
    is_megatron,
    is_v2,
    is_vllm,
    model_of,
    pipeline_parallel,
    tensor_parallel,
)
from postrender.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import Effective

_NAME: Final = "policy.model_name"
_TOKENIZER: Final = "policy.tokenizer.name"
# config.json rounds the vocabulary up, so that models of different sizes with one tokenizer differ by a few hundred.
_ROUNDING: Final = 1024
_OVERRIDES: Final = "policy.hf_config_overrides"
_PLAN: Final = f"{DTENSOR}.custom_parallel_plan"
_TP: Final = f"{DTENSOR}.tensor_parallel_size"
_MEGATRON_TP: Final = f"{MEGATRON}.tensor_model_parallel_size"
_STAGES: Final = f"{MEGATRON}.pipeline_model_parallel_size"
_EXPERTS: Final = f"{MEGATRON}.expert_model_parallel_size"
_ENGINE: Final = "vLLM refuses it when it starts: the cluster is up, and its GPUs are paid for"
# The classes for which the workers have their own plan; for others they read Hugging Face's.
_PLANNED: Final = (
    *("Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM"),
    *("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
)


def _generating(run: Effective) -> Model:
    """Return the model as vLLM reads it: before v0.6.0 vLLM's overrides are merged with those of the policy."""
    overrides, own = run.at(_OVERRIDES), run.at(f"{GENERATION}.vllm_kwargs.hf_overrides")
    if not run.since("v0.6.0") and isinstance(own, dict) and isinstance(overrides or {}, dict):
        overrides = {**own, **(overrides or {})}
    return Model(run.at(_NAME), overrides)


@TOPIC.rule(
    "heads-not-divisible",
    "K18 K19 K29",
    f"{_TP} {_NAME}",
    title="the tensor parallel size of training divides the model's attention heads and KV heads",
    why=WORKER,
    fix="choose a tensor parallel size that divides both numbers",
    source="nemo_rl/models/dtensor/parallelize.py:666 at v0.7.0",
)
def _heads(run: Effective) -> Iterator[Finding]:
    size, megatron = tensor_parallel(run), is_megatron(run)
    # Megatron replicates KV heads from v0.6.0 on; for v0.5.0 this is unknown.
    uneven = uneven_heads(model_of(run), size, repeats=megatron and run.since("v0.5.0")) if size > 1 else None
    if uneven:
        path = _MEGATRON_TP if megatron else _TP
        yield Finding(f"{path.removeprefix('policy.')} is {size}, and {uneven}", keys=[path, _NAME])


@TOPIC.rule(
    "layers-not-divisible",
    "K30",
    f"{_STAGES} {_NAME}",
    title="the number of Megatron's pipeline stages divides the model's layers",
    why=WORKER,
    fix="choose stages that divide the layers, or set num_layers_in_first_pipeline_stage and …_last_…",
    source="nemo_rl/models/megatron/setup.py:617 at v0.7.0",
)
def _layers(run: Effective) -> str | None:
    stages = pipeline_parallel(run)
    if stages == 1:
        return None
    model = model_of(run)
    layers = left = model.number("num_hidden_layers")
    parts = stages
    for end in ("first", "last"):
        path = f"{MEGATRON}.num_layers_in_{end}_pipeline_stage"
        if run.at(path) is not None:
            left, parts = left - run.integer(path), parts - 1
    if parts < 1 or left % parts == 0:
        return None
    rest = "" if parts == stages else f", of which {left} are left for {parts}"
    return f"megatron_cfg.pipeline_model_parallel_size is {stages}, and {model.name} has {layers} layers{rest}"


@TOPIC.rule(
    "experts-not-divisible",
    "K31",
    f"{_EXPERTS} {_NAME}",
    title="Megatron's expert parallel size divides the model's experts",
    why=WORKER,
    fix="choose an expert_model_parallel_size that divides the experts, or 1 for a model without experts",
    source="nemo_rl/models/megatron/setup.py:647 at v0.7.0",
)
def _experts(run: Effective) -> str | None:
    size = run.integer(_EXPERTS) if is_megatron(run) else 1
    if size <= 1:
        return None
    model = model_of(run)
    experts = model.experts()
    uneven = f"{model.name} has {experts} experts" if experts % size else None
    what = uneven or no_experts(model)
    return what and f"megatron_cfg.expert_model_parallel_size is {size}, and {what}"


def _reads_plan(run: Effective) -> bool:
    """Say whether the worker looks up a plan as the first version does; the second version does so only in v0.4.0."""
    first = not is_megatron(run) and not (is_v2(run) and run.since("v0.5.0"))
    return first and tensor_parallel(run) > 1 and run.at(_PLAN) is None


def _takes_plan(run: Effective) -> bool:
    """Say whether the second worker uses Hugging Face's plan, which only v0.5.0 has an option for."""
    told = is_v2(run) and run.on(f"{DTENSOR}.use_hf_tp_plan") and run.at(_PLAN) is None
    return told and run.since("v0.5.0") and not run.since("v0.6.0") and tensor_parallel(run) > 1


def _is_unreadable(run: Effective, architecture: str) -> bool:
    """Say whether Hugging Face's plan for a class, in the image's version, has styles that the first worker lacks."""
    return architecture == ("Qwen3MoeForCausalLM" if run.since("v0.6.0") else "GptOssForCausalLM")


@TOPIC.rule(
    "plan-of-the-model",
    "K20",
    f"{_TP} {_PLAN} {_NAME}",
    title="DTensor has a tensor parallel plan for the model",
    why=WORKER,
    fix="set policy.dtensor_cfg._v2 to true, tensor_parallel_size to 1, or give a custom_parallel_plan",
    source="nemo_rl/models/dtensor/parallelize.py:364 at v0.7.0",
    since="v0.5.0",
)
def _plan(run: Effective) -> str | None:
    if not _reads_plan(run):
        return None
    model = model_of(run)
    size = f"dtensor_cfg.tensor_parallel_size is {tensor_parallel(run)}"
    unreadable = _is_unreadable(run, model.architecture)
    return f"{size}, and the plan for {model.name} ({model.architecture}) cannot be read" if unreadable else None


@TOPIC.rule(
    "sequence-parallel-plan",
    "K21",
    f"{DTENSOR}.sequence_parallel {_PLAN} {_NAME}",
    title="sequence parallelism with DTensor needs a plan of NeMo RL or a custom plan",
    why=WORKER,
    fix="set policy.dtensor_cfg.sequence_parallel to false, or give a custom_parallel_plan",
    source="nemo_rl/models/dtensor/parallelize.py:704 at v0.7.0",
)
def _sequence_parallel(run: Effective) -> str | None:
    if not run.on(f"{DTENSOR}.sequence_parallel"):
        return None
    if _takes_plan(run):
        return "sequence_parallel and use_hf_tp_plan are both on"
    if not _reads_plan(run):
        return None
    model = model_of(run)
    foreign = model.architecture not in _PLANNED
    return f"sequence_parallel is on, and {model.name} is a {model.architecture}" if foreign else None


@TOPIC.rule(
    "generation-heads-not-divisible",
    "V22",
    f"{VLLM}.tensor_parallel_size {_NAME}",
    title="vLLM's tensor parallel size divides the model's attention heads",
    why=_ENGINE,
    fix="choose a size that divides the attention heads, and divides the KV heads or is a multiple of them",
    source="nemo_rl/models/generation/vllm/vllm_worker.py:441 at v0.7.0",
)
def _generation_heads(run: Effective) -> str | None:
    size = run.integer(f"{VLLM}.tensor_parallel_size") if is_vllm(run) else 1
    uneven = uneven_heads(_generating(run), size, repeats=True) if size > 1 else None
    return uneven and f"vllm_cfg.tensor_parallel_size is {size}, and {uneven}"


@TOPIC.rule(
    "generation-without-experts",
    "V24",
    f"{VLLM}.expert_parallel_size {_NAME}",
    title="expert parallel generation needs a model with experts",
    why=_ENGINE,
    fix="set policy.generation.vllm_cfg.expert_parallel_size to 1",
    source="nemo_rl/models/generation/vllm/vllm_worker.py:443 at v0.7.0",
)
def _generation_experts(run: Effective) -> str | None:
    size = run.integer(f"{VLLM}.expert_parallel_size") if is_vllm(run) else 1
    what = no_experts(_generating(run)) if size > 1 else None
    return what and f"vllm_cfg.expert_parallel_size is {size}, and {what}"


@TOPIC.rule(
    "longer-than-model",
    "V23",
    f"{VLLM}.max_model_len policy.max_total_sequence_length {_NAME}",
    title="sequences fit into the model's position embeddings",
    why=_ENGINE,
    fix="lower policy.max_total_sequence_length, or set hf_config_overrides.max_position_embeddings if you mean it",
    source="nemo_rl/models/generation/vllm/vllm_worker.py:449 at v0.7.0",
)
def _longer(run: Effective) -> str | None:
    if not is_vllm(run) or allows_longer(run, run.at(f"{VLLM}.env_vars")):
        return None
    length, model = run.integer(f"{VLLM}.max_model_len"), _generating(run)
    most = model.positions()
    return f"vllm_cfg.max_model_len is {length}, and {model.name} has {most} positions" if length > most else None


@TOPIC.rule(
    "tokenizer-of-another-model",
    "S67",
    f"{_TOKENIZER} {_NAME}",
    title="the tokenizer is one of the model's family",
    why="silent: the tokens mean other words to the model; or the first step fails with an index out of range",
    fix="remove policy.tokenizer.name: its default is ${policy.model_name}",
    source="nemo_rl/algorithms/utils.py:372 at v0.7.0",
)
def _tokenizer(run: Effective) -> str | None:
    name = run.at(_TOKENIZER)
    if name == run.at(_NAME):
        return None
    model, other = model_of(run), Model(name, None)
    sizes = model.number("vocab_size"), other.number("vocab_size")
    if abs(sizes[0] - sizes[1]) <= _ROUNDING:
        return None
    return f"the tokenizer of {other.name} has {sizes[1]} tokens, and {model.name} has {sizes[0]}"
