"""What Megatron and DTensor require for a model with experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import (
    DTENSOR,
    MEGATRON,
    NODES,
    is_megatron,
    is_v2,
    model_of,
    pipeline_parallel,
    tensor_parallel,
    worlds,
)
from postrender.problem import Fails

if TYPE_CHECKING:
    from grpo.values.config import RunConfig

_EXPERTS: Final = f"{MEGATRON}.expert_model_parallel_size"
_EXPERT_TENSOR: Final = f"{MEGATRON}.expert_tensor_parallel_size"
_DTENSOR_EXPERTS: Final = f"{DTENSOR}.expert_parallel_size"
_SEQUENCE: Final = f"{MEGATRON}.sequence_parallel"


@TOPIC.problem(
    f"{_EXPERTS} {_EXPERT_TENSOR} {NODES}",
    fails=Fails.AT_LOADING,
    source="megatron/core/parallel_state.py:792 of Megatron-LM; nemo_rl/models/megatron/setup.py:647 at v0.7.0",
)
def gpus_not_divisible_by_experts(run: RunConfig) -> str | None:
    """the training GPUs are not a multiple of Megatron's expert TP × EP × PP

    Fix: choose expert sizes whose product with the pipeline size divides the training GPUs
    """
    if not is_megatron(run):
        return None
    sizes = run.integer(_EXPERT_TENSOR), run.integer(_EXPERTS), pipeline_parallel(run)
    world, product = worlds(run)[0], sizes[0] * sizes[1] * sizes[2]
    if min(sizes) < 1 or world % product == 0:
        return None
    much = "less than" if world < product else "not a multiple of"
    return f"{world} GPUs train, which is {much} expert TP {sizes[0]} × EP {sizes[1]} × PP {sizes[2]} = {product}"


@TOPIC.problem(
    f"{_SEQUENCE} {MEGATRON}.tensor_model_parallel_size policy.model_name",
    fails=Fails.AT_FIRST_STEP,
    source="megatron/core/transformer/moe/moe_layer.py:565 of Megatron-LM d30c3ae546; NeMo RL at v0.6.0",
)
def experts_need_sequence_parallel(run: RunConfig) -> str | None:
    """Megatron trains experts with tensor parallelism, but sequence parallelism is off

    Fix: set policy.megatron_cfg.sequence_parallel to true, or tensor_model_parallel_size to 1
    """
    if not is_megatron(run) or tensor_parallel(run) == 1 or run.on(_SEQUENCE):
        return None
    if run.integer(_EXPERTS) > 1:
        words = f"expert_model_parallel_size is {run.integer(_EXPERTS)}"
    else:
        model = model_of(run)
        words = f"{model.name} has {model.experts()} experts"
        if not model.experts():
            return None
    return f"{words}, tensor_model_parallel_size is {tensor_parallel(run)}, and sequence_parallel is off"


@TOPIC.problem(
    f"{_DTENSOR_EXPERTS} {NODES}",
    fails=Fails.AT_LOADING,
    source="nemo_automodel/components/distributed/device_mesh.py:181 of 24b47e85; NeMo RL at v0.7.0",
    since="v0.7.0",
)
def gpus_not_divisible_by_dtensor_experts(run: RunConfig) -> str | None:
    """the training GPUs are not a multiple of DTensor's expert parallel size

    Fix: choose an expert_parallel_size that divides the training GPUs, or 1 for a model without experts
    """
    if not is_v2(run) or run.at(_DTENSOR_EXPERTS) is None:
        return None
    world, experts = worlds(run)[0], run.integer(_DTENSOR_EXPERTS)
    if experts < 1 or world % experts == 0:
        return None
    return f"{world} GPUs train, which is not a multiple of dtensor_cfg.expert_parallel_size {experts}"
