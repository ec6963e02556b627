"""What the model's config.json requires of parallel sizes and lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.frameworks.nemo_rl import TOPIC
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
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

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


def _generating(run: RunConfig) -> Model:
    """Return the model as vLLM reads it: before v0.6.0, vLLM's overrides are merged with the policy's."""
    overrides, own = run.at(_OVERRIDES), run.at(f"{GENERATION}.vllm_kwargs.hf_overrides")
    if not run.since("v0.6.0") and isinstance(own, dict) and isinstance(overrides or {}, dict):
        overrides = {**own, **(overrides or {})}
    return Model(run.at(_NAME), overrides)


@TOPIC.problem(
    f"{_TP} {_NAME}",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/dtensor/parallelize.py:666 at v0.7.0",
    logs="must be divisible by TP size",
)
def heads_not_divisible(run: RunConfig) -> Iterator[Finding]:
    """the tensor parallel size of training does not fit the model's attention or KV heads

    Fix: choose a tensor parallel size that divides both numbers
    """
    size, megatron = tensor_parallel(run), is_megatron(run)
    # Megatron replicates KV heads from v0.6.0 on; for v0.5.0 this is unknown.
    uneven = uneven_heads(model_of(run), size, repeats=megatron and run.since("v0.5.0")) if size > 1 else None
    if uneven:
        path = _MEGATRON_TP if megatron else _TP
        yield Finding(f"{path.removeprefix('policy.')} is {size}, and {uneven}", keys=[path, _NAME])


@TOPIC.problem(f"{_STAGES} {_NAME}", fails=Fails.AT_LOADING, source="nemo_rl/models/megatron/setup.py:617 at v0.7.0")
def layers_not_divisible(run: RunConfig) -> str | None:
    """Megatron's pipeline stages do not divide the model's layers evenly

    Fix: choose stages that divide the layers, or set num_layers_in_first_pipeline_stage and …_last_…
    """
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


@TOPIC.problem(f"{_EXPERTS} {_NAME}", fails=Fails.AT_LOADING, source="nemo_rl/models/megatron/setup.py:647 at v0.7.0")
def experts_not_divisible(run: RunConfig) -> str | None:
    """Megatron's expert parallel size does not fit the model's number of experts

    Fix: choose an expert_model_parallel_size that divides the experts, or 1 for a model without experts
    """
    size = run.integer(_EXPERTS) if is_megatron(run) else 1
    if size <= 1:
        return None
    model = model_of(run)
    experts = model.experts()
    uneven = f"{model.name} has {experts} experts" if experts % size else None
    what = uneven or no_experts(model)
    return what and f"megatron_cfg.expert_model_parallel_size is {size}, and {what}"


def _reads_plan(run: RunConfig) -> bool:
    """Return whether the worker looks up a plan as the first version does; the second does so only in v0.4.0."""
    first = not is_megatron(run) and not (is_v2(run) and run.since("v0.5.0"))
    return first and tensor_parallel(run) > 1 and run.at(_PLAN) is None


def _takes_plan(run: RunConfig) -> bool:
    """Return whether the second worker uses Hugging Face's plan, for which only v0.5.0 has an option."""
    told = is_v2(run) and run.on(f"{DTENSOR}.use_hf_tp_plan") and run.at(_PLAN) is None
    return told and run.since("v0.5.0") and not run.since("v0.6.0") and tensor_parallel(run) > 1


def _is_unreadable(run: RunConfig, architecture: str) -> bool:
    """Return whether Hugging Face's plan for a class, in the image's version, has styles the first worker lacks."""
    return architecture == ("Qwen3MoeForCausalLM" if run.since("v0.6.0") else "GptOssForCausalLM")


@TOPIC.problem(
    f"{_TP} {_PLAN} {_NAME}",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/dtensor/parallelize.py:364 at v0.7.0",
    since="v0.5.0",
)
def plan_of_the_model(run: RunConfig) -> str | None:
    """the model's tensor parallel plan cannot be read

    Fix: set policy.dtensor_cfg._v2 to true or tensor_parallel_size to 1, or set a custom_parallel_plan
    """
    if not _reads_plan(run):
        return None
    model = model_of(run)
    size = f"dtensor_cfg.tensor_parallel_size is {tensor_parallel(run)}"
    unreadable = _is_unreadable(run, model.architecture)
    return f"{size}, and the plan for {model.name} ({model.architecture}) cannot be read" if unreadable else None


@TOPIC.problem(
    f"{DTENSOR}.sequence_parallel {_PLAN} {_NAME}",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/dtensor/parallelize.py:704 at v0.7.0",
    logs="sequence_parallel is not support in HF tp plan",
)
def sequence_parallel_plan(run: RunConfig) -> str | None:
    """DTensor's sequence parallelism is on, but the plan does not support it

    Fix: set policy.dtensor_cfg.sequence_parallel to false, or set a custom_parallel_plan
    """
    if not run.on(f"{DTENSOR}.sequence_parallel"):
        return None
    if _takes_plan(run):
        return "sequence_parallel and use_hf_tp_plan are both on"
    if not _reads_plan(run):
        return None
    model = model_of(run)
    foreign = model.architecture not in _PLANNED
    return f"sequence_parallel is on, and {model.name} is a {model.architecture}" if foreign else None


@TOPIC.problem(
    f"{VLLM}.tensor_parallel_size {_NAME}",
    why=_ENGINE,
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/generation/vllm/vllm_worker.py:441 at v0.7.0",
    logs="Total number of attention heads (",
)
def generation_heads_not_divisible(run: RunConfig) -> str | None:
    """vLLM's tensor parallel size does not fit the model's attention or KV heads

    Fix: choose a size that divides the attention heads, and divides the KV heads or is a multiple of them
    """
    size = run.integer(f"{VLLM}.tensor_parallel_size") if is_vllm(run) else 1
    uneven = uneven_heads(_generating(run), size, repeats=True) if size > 1 else None
    return uneven and f"vllm_cfg.tensor_parallel_size is {size}, and {uneven}"


@TOPIC.problem(
    f"{VLLM}.expert_parallel_size {_NAME}",
    why=_ENGINE,
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/generation/vllm/vllm_worker.py:443 at v0.7.0",
)
def generation_without_experts(run: RunConfig) -> str | None:
    """expert parallel generation is on, but the model has no experts

    Fix: set policy.generation.vllm_cfg.expert_parallel_size to 1
    """
    size = run.integer(f"{VLLM}.expert_parallel_size") if is_vllm(run) else 1
    what = no_experts(_generating(run)) if size > 1 else None
    return what and f"vllm_cfg.expert_parallel_size is {size}, and {what}"


@TOPIC.problem(
    f"{VLLM}.max_model_len policy.max_total_sequence_length {_NAME}",
    why=_ENGINE,
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/generation/vllm/vllm_worker.py:449 at v0.7.0",
)
def longer_than_model(run: RunConfig) -> str | None:
    """vLLM's maximum sequence length exceeds the model's position embeddings

    Fix: lower policy.max_total_sequence_length, or set hf_config_overrides.max_position_embeddings if this is intended
    """
    if not is_vllm(run) or allows_longer(run, run.at(f"{VLLM}.env_vars")):
        return None
    length, model = run.integer(f"{VLLM}.max_model_len"), _generating(run)
    most = model.positions()
    return f"vllm_cfg.max_model_len is {length}, and {model.name} has {most} positions" if length > most else None


@TOPIC.problem(f"{_TOKENIZER} {_NAME}", fails=Fails.AT_FIRST_STEP, source="nemo_rl/algorithms/utils.py:372 at v0.7.0")
def tokenizer_of_another_model(run: RunConfig) -> str | None:
    """the tokenizer has a different vocabulary than the model

    Why: the tokens mean other words to the model, or the first step fails with an index out of range
    Fix: remove policy.tokenizer.name: its default is ${policy.model_name}
    """
    name = run.at(_TOKENIZER)
    if name == run.at(_NAME):
        return None
    model, other = model_of(run), Model(name, None)
    sizes = model.number("vocab_size"), other.number("vocab_size")
    if abs(sizes[0] - sizes[1]) <= _ROUNDING:
        return None
    return f"the tokenizer of {other.name} has {sizes[1]} tokens, and {model.name} has {sizes[0]}"
