"""Mutations of NeMo RL's recipes: batches, packing, backends and the cluster.

The stacks, all on H200 with 8 GPUs a node: `two-nodes` has 2048 rows a step, 512 an update, DP 16 and sequence packing;
`apart` trains on one node at TP 8 and generates on the other; `gemma` does so without packing, on DTensor v1;
`dynamic` is one node with dynamic batching; `smoke` one node with 8 rows; `one-gpu` the same on one GPU.
Facts are named as in the catalogue of rules; versions count from v0.4.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.recall.cases import Row

V5, V6, V7 = 1, 2, 3
GBS, MBS, LOGPROB = "policy.train_global_batch_size", "policy.train_micro_batch_size", "policy.logprob_batch_size"
PROMPTS, ANSWERS = "grpo.num_prompts_per_step", "grpo.num_generations_per_prompt"
TP, CP = "policy.dtensor_cfg.tensor_parallel_size", "policy.dtensor_cfg.context_parallel_size"
V2 = "policy.dtensor_cfg._v2"
NODES = "values:ray.workers.replicas"
PACKING, DYNAMIC = "policy.sequence_packing.enabled", "policy.dynamic_batching.enabled"
COLOCATED = "policy.generation.colocated"
MEGATRON = {"policy.megatron_cfg.enabled": True, "policy.dtensor_cfg.enabled": False}
UNPACKED = {PACKING: False}
DYNAMIC_ON = {PACKING: False, DYNAMIC: True}
APART = {f"{COLOCATED}.enabled": False}


def batches() -> Iterator[Row]:
    """Yield rows, updates, shards and micro batches that divide each other, or do not."""
    yield Row("B1", "two-nodes", GBS, good=(2048, 1024, 256, 128, 64), bad=(768, 96, 1536, 4096, 320))
    yield Row("B1", "two-nodes", PROMPTS, good=(16, 32, 48, 128, 80), bad=(60, 63, 20, 8))
    yield Row("B1", "two-nodes", ANSWERS, good=(8, 16, 24, 64), bad=(20, 12, 4))
    yield Row("B1", "smoke", GBS, bad=(16, 24))
    yield Row("B2", "two-nodes", GBS, good=(16, 32), bad=(8, 4, 1, 2))
    yield Row("B2", "two-nodes", NODES, good=(1, 4, 8, 16), bad=(3, 5, 6, 7))
    yield Row("B2", "dynamic", NODES, good=(2, 4), bad=(3, 5))
    yield Row("B2", "two-nodes", "values:job.nodes", good=(1, 2))
    yield Row("B2", "smoke", PROMPTS, bad=(1, 3), extra={GBS: 4})
    yield Row("B3", "two-nodes", MBS, good=(1, 2, 4, 16, 32), bad=(3, 5, 6, 12, 64), extra=UNPACKED)
    yield Row("B3", "two-nodes", LOGPROB, good=(1, 4, 8, 128), bad=(3, 6, 256), extra=UNPACKED)
    yield Row("B3", "two-nodes", MBS, good=(2, 3, 5))  # packed: micro batches are counted in tokens
    yield Row("B3", "two-nodes", LOGPROB, good=(1, 3, 7))
    yield Row("B3", "gemma", MBS, good=(1,), bad=(3,), extra={LOGPROB: 1})
    yield Row("B4", "two-nodes", "grpo.batch_multiplier", good=(1,), bad=(2, 1.5, 0))
    yield Row("B4", "two-nodes", "grpo.batch_multiplier", good=(1, 2), extra={"grpo.use_dynamic_sampling": True})
    budget = "grpo.dynamic_sampling_max_gen_batches"
    on = {"grpo.use_dynamic_sampling": True}
    yield Row("B5", "two-nodes", budget, good=(1, 10), bad=(0,), extra=on, seen=False)
    yield Row("B5", "two-nodes", budget, good=(0,))
    several = {"data.use_multiple_dataloader": True}
    loader = "data.num_prompts_per_dataloader"
    yield Row("B6", "two-nodes", loader, good=(32, 64, 16), bad=(48, 128, 5), extra=several, since=V6, exists=V6)
    yield Row("B6", "two-nodes", loader, good=(48,), exists=V6)
    forced = {"loss_fn.force_on_policy_ratio": True}
    yield Row("B7", "two-nodes", GBS, good=(2048,), bad=(512, 1024, 256), extra=forced, since=V5)
    yield Row("B7", "two-nodes", GBS, good=(512,), extra={"loss_fn.force_on_policy_ratio": False}, exists=V5)


def packing() -> Iterator[Row]:
    """Yield packing and dynamic batching, their budgets and their exclusions."""
    yield Row("M1", "two-nodes", DYNAMIC, good=(False,), bad=(True,))
    yield Row("M1", "dynamic", PACKING, good=(False,), bad=(True,))
    yield Row("M1", "two-nodes", "", good=(DYNAMIC_ON, UNPACKED))
    pipeline = "policy.megatron_cfg.pipeline_model_parallel_size"
    yield Row("M2", "two-nodes", pipeline, good=(1,), bad=(2, 4), extra={**DYNAMIC_ON, **MEGATRON})
    yield Row("M2", "two-nodes", pipeline, good=(1, 2, 4), extra={**UNPACKED, **MEGATRON})
    for key in ("train_mb_tokens", "logprob_mb_tokens"):
        yield Row("M3", "dynamic", f"policy.dynamic_batching.{key}", good=(2048, 4096), bad=(1024, 2047), seen=False)
        yield Row(
            "M4", "two-nodes", f"policy.sequence_packing.{key}", good=(4096, 8192), bad=(1024, 2048, 4095), seen=False
        )
    good = ("first_fit_decreasing", "first_fit_shuffle", "modified_first_fit_decreasing", "concatenative")
    algorithm = "policy.sequence_packing.algorithm"
    yield Row("M5", "two-nodes", algorithm, good=good, bad=("best_fit", "mffd", None, ""), seen=False)
    yield Row("M7", "smoke", NODES, good=(1,), bad=(2,))


def backends() -> Iterator[Row]:
    """Yield the choice of the training backend and how it splits a model."""
    yield Row("K1", "two-nodes", "policy.megatron_cfg.enabled", good=(False,), bad=(True,))
    yield Row("K2", "two-nodes", "policy.dtensor_cfg.enabled", good=(True,), bad=(False,))
    yield Row("K2", "gemma", "policy.dtensor_cfg.enabled", good=(True,), bad=(False,))
    yield Row("K1", "two-nodes", "", good=(MEGATRON,))
    draft = {"policy.draft.enabled": True}
    yield Row("K4", "two-nodes", "", bad=(draft, {**draft, **MEGATRON}), since=V6, exists=V6)
    yield Row("K4", "two-nodes", "", good=({**draft, **MEGATRON, **UNPACKED},), since=V6, exists=V6)
    lora = "policy.dtensor_cfg.lora_cfg"
    old = {V2: False, "checkpointing.model_save_format": None}
    yield Row("O11", "two-nodes", f"{lora}.enabled", bad=(True,), since=V5, until=V5, exists=V5, seen=False)
    yield Row("K5", "two-nodes", f"{lora}.enabled", good=(False,), exists=V5)
    yield Row("K5", "two-nodes", f"{lora}.enabled", good=(False,), bad=(True,), extra=old, since=V5, exists=V5)
    replicate = "policy.dtensor_cfg.dp_replicate_size"
    yield Row("K6", "two-nodes", replicate, good=(1,), bad=(2, 4), extra=old, since=V7, exists=V7)
    yield Row("K7", "two-nodes", replicate, good=(1, 2, 4, 16), bad=(3, 5, 32), since=V7, exists=V7, seen=False)
    yield Row("K8", "two-nodes", TP, bad=(32, 64), extra={LOGPROB: 1})
    yield Row("K8", "smoke", TP, bad=(16,))
    yield Row("K8", "apart", TP, good=(1, 2, 4), bad=(16, 32))
    yield Row("K8", "gemma", CP, bad=(2, 4))
    yield Row("K9", "two-nodes", TP, good=(1, 2, 4, 8), bad=(3, 5, 6, 7, 12), extra={LOGPROB: 1})
    yield Row("K9", "apart", TP, bad=(3, 5, 6, 7))
    yield Row("K9", "two-nodes", CP, good=(1, 2, 4), bad=(3, 6), extra=UNPACKED)
    yield Row(
        "K9", "two-nodes", "policy.megatron_cfg.tensor_model_parallel_size", good=(1, 2), bad=(3,), extra=MEGATRON
    )
    yield Row("K9", "two-nodes", "policy.megatron_cfg.tensor_model_parallel_size", good=(3,))
    yield Row("K10", "two-nodes", TP, good=(1, 2), bad=(4, 8), since=V6)
    yield Row("K10", "two-nodes", LOGPROB, good=(1,), bad=(2, 4, 8), extra={TP: 4}, since=V6)
    yield Row("K10", "two-nodes", LOGPROB, good=(1, 2), extra={TP: 2})
    yield Row("K10", "gemma", LOGPROB, good=(1,), bad=(2, 4), since=V6)
    yield Row("K10", "apart", LOGPROB, good=(1,), bad=(2, 4), since=V6)
    ignored = {"values:job.env": {"NRL_IGNORE_TP_ACCURACY_CHECK": {"value": "1"}}}
    yield Row("K10", "two-nodes", TP, good=(4, 8), extra=ignored)
    yield Row("K10", "two-nodes", TP, good=(4,), extra={"loss_fn.force_on_policy_ratio": True, GBS: 2048}, exists=V5)


def workers() -> Iterator[Row]:
    """Yield what NeMo RL says when its workers start: nothing of it is seen without GPUs."""
    lora = {"policy.dtensor_cfg.lora_cfg.enabled": True, TP: 2}
    triton = "policy.dtensor_cfg.lora_cfg.use_triton"
    yield Row("O11", "two-nodes", triton, bad=(False,), extra=lora, since=V5, until=V5, exists=V5, seen=False)
    yield Row("K11", "two-nodes", triton, bad=(True,), extra=lora, since=V5, exists=V5, seen=False)
    precision = "policy.precision"
    good = ("bfloat16", "float16", "float32")
    yield Row("K12", "two-nodes", precision, good=good, bad=("bf16", "fp8", "float64"), seen=False)
    yield Row("K13", "two-nodes", CP, good=(1,), bad=(2, 4), seen=False)
    yield Row("K14", "gemma", "", good=({TP: 4, LOGPROB: 1},), bad=({TP: 4, CP: 2},), seen=False)
    sequence = "policy.dtensor_cfg.sequence_parallel"
    cp = {**UNPACKED, CP: 2, TP: 2}
    yield Row("K15", "two-nodes", sequence, good=(False,), bad=(True,), extra=cp, seen=False)
    yield Row("K15", "two-nodes", sequence, good=(True,), extra={TP: 2})
    offload = "policy.dtensor_cfg.cpu_offload"
    yield Row("K22", "one-gpu", offload, good=(False,), bad=(True,), since=V6, seen=False)
    yield Row("K22", "two-nodes", offload, good=(True,))
    scaling = "policy.hf_config_overrides.rope_scaling"
    yarn = {"rope_type": "yarn", "factor": 4.0}
    yield Row(
        "K23", "two-nodes", scaling, good=({"rope_type": "linear", "factor": 2.0},), bad=(yarn,), since=V6, seen=False
    )
    attention = "policy.dtensor_cfg.automodel_kwargs.attn_implementation"
    yield Row(
        "K24",
        "two-nodes",
        attention,
        good=("flash_attention_2",),
        bad=("sdpa", "eager"),
        since=V7,
        exists=V7,
        seen=False,
    )
    linear = {"name": "torch.optim.lr_scheduler.LinearLR", "kwargs": {"total_iters": 10}}
    nameless = {"kwargs": {"total_iters": 10}}
    lists = ([linear], [linear, {"milestones": []}])
    yield Row("K25", "two-nodes", "policy.scheduler", good=lists, bad=([nameless],), seen=False)
    reward_model = {"policy.reward_model_cfg.enabled": True}
    yield Row("K26", "two-nodes", "", bad=(reward_model,), seen=False)
    chunk = "policy.logprob_chunk_size"
    defer = {**MEGATRON, "policy.megatron_cfg.defer_fp32_logits": False}
    yield Row("X2", "two-nodes", chunk, good=(None,), bad=(1024,), extra=defer, seen=False)
    megatron_cp = "policy.megatron_cfg.context_parallel_size"
    yield Row("X1", "two-nodes", megatron_cp, good=(1, 2), extra=MEGATRON)
    yield Row("X1", "two-nodes", megatron_cp, bad=(2, 4), extra={**MEGATRON, **UNPACKED}, seen=False)
    divisor = "policy.make_sequence_length_divisible_by"
    cp2 = {**MEGATRON, megatron_cp: 2}
    yield Row("X5", "two-nodes", divisor, good=(4, 8, 64), bad=(1, 2, 3), extra=cp2, since=V6, seen=False)
    optimizer = {**MEGATRON, "policy.megatron_cfg.optimizer.use_precision_aware_optimizer": True}
    half = "policy.megatron_cfg.optimizer.bf16"
    yield Row("X4", "two-nodes", half, good=(True,), bad=(False,), extra=optimizer, since=V5, seen=False)


def cluster() -> Iterator[Row]:
    """Yield how nodes and GPUs are shared between training and generation."""
    gpus, nodes = f"{COLOCATED}.resources.gpus_per_node", f"{COLOCATED}.resources.num_nodes"
    yield Row("C3", "smoke", gpus, good=(4, 6), bad=(None, 0, -1), extra={**APART, nodes: None})
    yield Row("C4", "smoke", nodes, good=(None, 1), bad=(0, 2), extra={**APART, gpus: 4})
    yield Row("C5", "smoke", gpus, bad=(8, 9), extra={**APART, nodes: 1})
    yield Row("C5", "dynamic", gpus, good=(4, 6, 7), bad=(8, 16), extra={**APART, nodes: 1})
    yield Row("C5", "one-gpu", gpus, bad=(1,), extra={**APART, nodes: 1})
    yield Row("C6", "apart", nodes, good=(1,), bad=(None, 0, -1))
    yield Row("C6", "gemma", nodes, bad=(None, 0))
    yield Row("C7", "apart", gpus, good=(8,), bad=(4, 1, 16, None, 0))
    yield Row("C7", "two-nodes", gpus, good=(4, 1))  # colocated: nothing reads it
    yield Row("C8", "apart", nodes, bad=(2, 3))  # before v0.7.0 it is said in other words
    yield Row("C8", "apart", nodes, good=(1, 2), bad=(3,), extra={NODES: 3})
    generated = {"policy.generation.backend": "megatron"}
    yield Row("C9", "apart", "", bad=({**MEGATRON, **generated},), until=V6)
    train = {**MEGATRON, "policy.megatron_cfg.tensor_model_parallel_size": 8}
    yield Row("C9", "apart", "", good=(train,))
    yield Row("C10", "two-nodes", "cluster.segment_size", good=(1, 2, None), bad=(3,), since=V7, exists=V7, seen=False)
    yield Row("C11", "two-nodes", "cluster.num_nodes", good=(2,), bad=(1, 3, 4))
    yield Row("C11", "two-nodes", "cluster.gpus_per_node", good=(8,), bad=(4, 16))
    yield Row("C11", "two-nodes", "values:job.nodes", bad=(3, 8))
    yield Row("C12", "two-nodes", "values:accelerator.worker.cpu", good=("16", "64"), bad=("8", "15"), seen=False)
    model = "env.reward_model.resources"
    on = {"data.default.env_name": "reward_model", f"{model}.gpus_per_node": 8}
    yield Row("C1", "two-nodes", f"{model}.num_nodes", good=(1,), bad=(2, 3), extra=on, exists=V6)
    shared = {"data.default.env_name": "reward_model", f"{model}.num_nodes": 1}
    yield Row("C2", "smoke", f"{model}.gpus_per_node", good=(4,), bad=(8, 9), extra=shared, exists=V6)


TABLES = (batches, packing, backends, workers, cluster)
