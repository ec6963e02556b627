"""Mutations of NeMo RL's recipes: vLLM, loss, validation, asynchronous training, checkpoints, data, silent mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.recall.cases import Row
from tests.recall.nemo_rl_cases import (
    COLOCATED,
    GBS,
    LOGPROB,
    MEGATRON,
    NODES,
    PROMPTS,
    TP,
    UNPACKED,
    V2,
    V5,
    V6,
    V7,
)

VLLM = "policy.generation.vllm_cfg"
VLLM_TP, VLLM_PP = f"{VLLM}.tensor_parallel_size", f"{VLLM}.pipeline_parallel_size"
ENGINE, EXPERTS = f"{VLLM}.async_engine", f"{VLLM}.expert_parallel_size"
CORRECTION = "loss_fn.use_importance_sampling_correction"
ASYNC = {"grpo.async_grpo.enabled": True, ENGINE: True, CORRECTION: True}


def vllm() -> Iterator[Row]:
    """Yield vLLM's parallelism, its sampling, and arguments that it does not take."""
    yield Row("V1", "two-nodes", VLLM_TP, good=(1, 2, 4, 8, 16), bad=(3, 5, 6, 7, 32))
    yield Row("V1", "smoke", VLLM_TP, good=(1, 2, 4, 8), bad=(3, 16))
    yield Row("V1", "apart", VLLM_TP, good=(1, 2, 4, 8), bad=(3, 6, 16))
    thrice = {NODES: 3, PROMPTS: 48, GBS: 768}
    yield Row("V5", "two-nodes", VLLM_TP, good=(1, 2, 4, 8), bad=(3, 6), extra=thrice)
    yield Row("V2", "two-nodes", VLLM_PP, good=(1,), bad=(2, 4), extra={ENGINE: False})
    yield Row("V2", "two-nodes", VLLM_PP, good=(1, 2, 4), bad=(3,), extra={ENGINE: True})
    yield Row("V2", "two-nodes", ENGINE, good=(True, False))
    yield Row("V3", "two-nodes", EXPERTS, good=(1, 2, 4), bad=(3, 5), extra={VLLM_TP: 2})
    yield Row("V3", "two-nodes", EXPERTS, good=(1, 4, 8), bad=(2, 6), extra={VLLM_TP: 4})
    yield Row("V4", "two-nodes", EXPERTS, good=(1, 2), bad=(4, 8), extra={VLLM_TP: 2, ENGINE: True})
    top_k, top_p = "policy.generation.top_k", "policy.generation.top_p"
    yield Row("V6", "two-nodes", top_k, good=(None, -1, 8000), bad=(0, -2))
    yield Row("V6", "two-nodes", top_k, bad=(1, 50, 7999), until=V5)
    yield Row("V7", "two-nodes", top_p, good=(1.0, 0.99), bad=(0.0, -0.1))
    yield Row("V7", "two-nodes", top_p, bad=(0.5, 0.95, 0.98), until=V5)
    yield Row("V7", "two-nodes", top_p, bad=(1.01, 2.0), since=V6)
    bare = {"tensor_parallel_size": 1, "gpu_memory_utilization": 0.6}
    yield Row("V8", "two-nodes", VLLM, bad=(None,), good=(bare,))
    yield Row("V8", "two-nodes", "policy.generation.max_new_tokens", good=(512, 4096))
    own = ("seed", "dtype", "enforce_eager", "gpu_memory_utilization", "max_model_len", "tensor_parallel_size")
    given = [{f"policy.generation.vllm_kwargs.{name}": 1} for name in own]
    others = [{f"policy.generation.vllm_kwargs.{name}": 32} for name in ("block_size", "max_num_seqs")]
    yield Row("V11", "two-nodes", "", good=others, bad=given, seen=False)
    interval = f"{VLLM}.vllm_metrics_logger_interval"
    metrics = {f"{VLLM}.enable_vllm_metrics_logger": True}
    yield Row(
        "V12",
        "two-nodes",
        interval,
        good=(0.5,),
        bad=(0, -1),
        extra={**metrics, ENGINE: True},
        since=V5,
        exists=V5,
        seen=False,
    )
    yield Row(
        "V12", "two-nodes", interval, bad=(0.5,), extra={**metrics, ENGINE: False}, since=V5, exists=V5, seen=False
    )
    fp8 = {f"{VLLM}.precision": "fp8"}
    yield Row("V13", "two-nodes", CORRECTION, good=(True,), bad=(False,), extra=fp8)
    cache = f"{VLLM}.kv_cache_dtype"
    yield Row("V14", "two-nodes", cache, good=("auto",), bad=("fp8", "fp8_e4m3"), since=V5, exists=V5)
    safe = {**fp8, CORRECTION: True}
    yield Row("V15", "two-nodes", cache, good=("auto",), bad=("fp8", "fp8_e4m3"), extra=safe, since=V5, exists=V5)
    megatron = {**safe, **MEGATRON}
    yield Row(
        "V16", "two-nodes", ENGINE, good=(False,), bad=(True,), extra={**megatron, cache: "fp8"}, since=V5, exists=V5
    )
    pipeline = "policy.megatron_cfg.pipeline_model_parallel_size"
    yield Row("V17", "two-nodes", pipeline, good=(1,), bad=(2,), extra={**megatron, cache: "fp8"}, since=V5, exists=V5)


def loss() -> Iterator[Row]:
    """Yield the loss, what its options exclude, and the shaping of rewards."""
    clip = "loss_fn.ratio_clip_c"
    yield Row("L1", "two-nodes", clip, good=(3.0, 1.5, None), bad=(1.0, 0.5, 0), seen=False)
    level = {"loss_fn.sequence_level_importance_ratios": True}
    yield Row("L2", "two-nodes", "loss_fn.token_level_loss", good=(False,), bad=(True,), extra=level)
    yield Row("L2", "two-nodes", "loss_fn.token_level_loss", good=(False, True))
    ratio, kind = "loss_fn.truncated_importance_sampling_ratio", "loss_fn.truncated_importance_sampling_type"
    tis = {CORRECTION: True}
    yield Row("L3", "two-nodes", CORRECTION, good=(True,), bad=(False,), extra={ratio: 2.0, kind: "tis"}, exists=V6)
    yield Row("L3", "two-nodes", ratio, bad=(2.0, 5), until=V6)  # the type has no default from v0.7.0 on
    yield Row("L4", "two-nodes", ratio, good=(2.0, 0.5), bad=(0, -1), extra={**tis, kind: "tis"}, exists=V6)
    yield Row("L4", "two-nodes", ratio, good=(2.0,), bad=(0, -1), extra=tis, until=V6)
    truncated = {**tis, ratio: 2.0}
    yield Row("L5", "two-nodes", kind, good=("tis",), bad=("foo", "TIS"), extra=truncated, since=V6, exists=V6)
    least = "loss_fn.truncated_importance_sampling_ratio_min"
    icepop = {**truncated, kind: "icepop"}
    yield Row("L5", "two-nodes", least, good=(0.5, 2.0), bad=(3.0,), extra=icepop, since=V7, exists=V6)
    yield Row("L5", "two-nodes", least, bad=(None,), extra=icepop, since=V7, exists=V6)
    masked = {**truncated, kind: "seq-mask-tis"}
    yield Row("L5", "two-nodes", least, good=(0.5,), bad=(3.0, None), extra=masked, since=V7, exists=V7)
    cispo = {"loss_fn.use_cispo": True}
    clashes = (
        {"loss_fn.disable_ppo_ratio": True},
        {"loss_fn.force_on_policy_ratio": True, GBS: 2048},
        {"loss_fn.sequence_level_importance_ratios": True, "loss_fn.token_level_loss": False},
        {clip: 3.0},
        {"loss_fn.token_level_loss": False},
    )
    yield Row("L6", "two-nodes", "", good=({}, {clip: None}), bad=clashes, extra=cispo, since=V7, exists=V7)
    yield Row("L6", "two-nodes", "", good=(clashes[0], clashes[2]), exists=V7)
    shaping = "grpo.reward_shaping"
    on = {f"{shaping}.enabled": True}
    penalty = f"{shaping}.overlong_buffer_penalty"
    yield Row("L7", "two-nodes", "", good=({f"{shaping}.overlong_buffer_length": 128},), extra=on)
    nothing = {f"{shaping}.overlong_buffer_length": None}
    yield Row("L7", "two-nodes", "", bad=(nothing, {penalty: None}), extra=on, seen=False)
    stop = f"{shaping}.stop_properly_penalty_coef"
    yield Row("L8", "two-nodes", stop, good=(0, 0.5, 1), bad=(1.5, -0.1), extra=on, since=V6, exists=V6, seen=False)
    yield Row("L9", "two-nodes", penalty, good=(0, 1), bad=(-1, -0.5), extra=on, seen=False)
    penalised = "loss_fn.reference_policy_kl_penalty"
    skip = {"grpo.skip_reference_policy_logprobs_calculation": True}
    yield Row("G5", "two-nodes", penalised, good=(0, 0.0), bad=(0.01,), extra=skip, since=V7, exists=V7)
    yield Row("G5", "two-nodes", penalised, good=(0, 0.1, 1.0))
    estimator = "grpo.adv_estimator.name"
    yield Row(
        "G11", "two-nodes", estimator, good=("grpo", "reinforce_plus_plus"), bad=("grop", "ppo"), since=V6, exists=V6
    )
    tool = "grpo.invalid_tool_call_advantage"
    yield Row("G9", "two-nodes", tool, good=(None,), bad=(-1.0,), since=V7, exists=V7, seen=False)


def validation() -> Iterator[Row]:
    """Yield validation with and without a data set for it."""
    none, never = {"data.validation": None}, {"grpo.val_period": 0, "grpo.val_at_start": False}
    blind = ("--no-val-dataset",)
    yield Row("G1", "two-nodes", "grpo.val_period", bad=(10, 1), extra=none, exists=V6, arguments=blind)
    yield Row("G1", "two-nodes", "", good=({**none, **never},), exists=V6, arguments=blind)
    late = {**none, **never, "grpo.val_at_end": True}
    yield Row(
        "G1",
        "two-nodes",
        "",
        bad=({**none, "grpo.val_period": 0, "grpo.val_at_start": True}, late),
        exists=V6,
        arguments=blind,
    )
    yield Row("G1", "two-nodes", "grpo.val_period", good=(5, 20))
    yield Row("G1", "two-nodes", "grpo.val_at_start", good=(True, False))


def asynchronous() -> Iterator[Row]:
    """Yield asynchronous GRPO and what it needs."""
    yield Row(
        "A1", "apart", ENGINE, good=(True,), bad=(False,), extra={"grpo.async_grpo.enabled": True, CORRECTION: True}
    )
    yield Row(
        "A2", "apart", CORRECTION, good=(True,), bad=(False,), extra={"grpo.async_grpo.enabled": True, ENGINE: True}
    )
    yield Row("A3", "two-nodes", "", bad=(ASYNC,))
    yield Row("A3", "gemma", "", good=(ASYNC,))
    clashes = [
        {"grpo.use_dynamic_sampling": True},
        {"grpo.reward_scaling.enabled": True},
        {"grpo.reward_shaping.enabled": True},
    ]
    yield Row("A4", "apart", "", bad=clashes, extra=ASYNC)
    yield Row("A4", "two-nodes", "", good=clashes)
    loaders = {"data.use_multiple_dataloader": True, "data.num_prompts_per_dataloader": 32}
    yield Row("A4", "apart", "", bad=(loaders,), extra=ASYNC, exists=V6)
    batch = {TP: 1, PROMPTS: 63, "grpo.num_generations_per_prompt": 4, GBS: 252}
    yield Row("B8", "apart", "", bad=(batch,), good=({**batch, PROMPTS: 64, GBS: 256},), extra=ASYNC)


def checkpoints() -> Iterator[Row]:
    """Yield names of metrics, formats and times of checkpoints."""
    metric = "checkpointing.metric_name"
    yield Row(
        "S2",
        "two-nodes",
        metric,
        good=("val:accuracy", "train:loss", "train:reward", None),
        bad=("accuracy", "val_reward", "val/accuracy", ""),
    )
    yield Row("S3", "two-nodes", metric, bad=("val:acuracy", "val:reward"), seen=False)
    save = "checkpointing.model_save_format"
    yield Row("S4", "two-nodes", save, good=(None,), bad=("safetensors", "torch_save"), extra={V2: False})
    yield Row("S4", "gemma", save, good=(None,), bad=("safetensors", "torch_save"))
    yield Row("S4", "two-nodes", save, good=("safetensors", "torch_save", None))
    yield Row("S4", "two-nodes", save, bad=("pytorch",), seen=False)
    yield Row("S4", "two-nodes", "", good=({V2: False, save: "safetensors", "checkpointing.enabled": False},))
    until = "checkpointing.checkpoint_must_save_by"
    yield Row(
        "S5", "two-nodes", until, good=(None, "00:03:30:00", "01:00:00:00"), bad=("03:30:00", "4h", "00:03:30", 45000)
    )
    yield Row("S1", "two-nodes", "checkpointing", bad=({"_override_": True, "enabled": True},), exists=V6)
    yield Row("S1", "two-nodes", "checkpointing.enabled", good=(True, False))


def data() -> Iterator[Row]:
    """Yield data sets, processors and environments; the judge reads no data."""
    yield Row("D1", "two-nodes", "data.train", bad=(None,), exists=V6, seen=False)
    yield Row(
        "D2",
        "two-nodes",
        "data.train.dataset_name",
        good=("OpenMathInstruct-2",),
        bad=("gsm9k", "GSM-8K"),
        exists=V6,
        seen=False,
    )
    yield Row("D2", "two-nodes", "data.train.dataset_name", bad=("GSM8K",), until=V6, exists=V6, seen=False)
    yield Row(
        "D2",
        "dynamic",
        "data.dataset_name",
        good=("OpenMathInstruct-2", "DeepScaler"),
        bad=("OpenMathInstruct2",),
        until=V5,
        seen=False,
    )
    yield Row(
        "D3",
        "two-nodes",
        "data.default.env_name",
        good=("math",),
        bad=("maths", "code_execution"),
        exists=V6,
        seen=False,
    )
    yield Row(
        "D4",
        "two-nodes",
        "data.default.processor",
        good=("math_hf_data_processor",),
        bad=("math_processor",),
        exists=V6,
        seen=False,
    )
    yield Row("D5", "two-nodes", "policy.generation", bad=(None,))
    yield Row("types", "two-nodes", GBS, bad=("abc", 0, None, 512.5), silent=(-512,))
    yield Row("types", "two-nodes", GBS, bad=("512",), until=V6)  # later a text of digits is taken for the number
    yield Row("types", "two-nodes", "checkpointing.keep_top_k", bad=(None,), since=V7)  # its code would keep all
    yield Row("types", "two-nodes", PROMPTS, bad=("many", 0, -64, None))
    yield Row("types", "two-nodes", "policy.optimizer", bad=("adam",), seen=False)
    yield Row("types", "two-nodes", "grpo.max_num_steps", good=(1, 1000), bad=("ten",), since=V7)
    yield Row("types", "two-nodes", "grpo.val_period", bad=("10",), until=V6)
    yield Row("types", "two-nodes", LOGPROB, bad=("two",), extra=UNPACKED)
    yield Row("types", "two-nodes", "policy.max_total_sequence_length", good=(2048, 8192), bad=("4k",), since=V7)
    yield Row("types", "two-nodes", "policy.sequence_packing", bad=(True,))
    yield Row("types", "two-nodes", "policy.dtensor_cfg", bad=(None, []))
    yield Row("types", "two-nodes", "policy.model_name", bad=("${policy.nothing}",))


def silent() -> Iterator[Row]:
    """Yield mistakes that NeMo RL takes without a word."""
    yield Row("W1", "two-nodes", "grpo.val_batch_size", good=(256, 128, 64), silent=(257, 512))
    yield Row("W1", "smoke", "grpo.max_val_samples", good=(8, 16), silent=(7, 4))
    yield Row("W2", "two-nodes", PROMPTS, silent=(8192,))
    yield Row("W3", "two-nodes", "grpo.max_num_steps", good=(116, 50), silent=(117, 1000000))
    yield Row("W3", "two-nodes", "grpo.max_num_steps", good=(200, 232), extra={"grpo.max_num_epochs": 2})
    typos = (
        {"policy.trian_global_batch_size": 512},
        {"grpo.num_prompt_per_step": 64},
        {"loss_fn.kl_penalty": 0.1},
        {"chekpointing.save_period": 5},
        {"policy.generation.temprature": 0.5},
        {"policy.dtensor_cfg.tensor_model_parallel_size": 2},
        {"grpo.max_steps": 20},
    )
    yield Row("W4", "two-nodes", "", silent=typos)
    yield Row("W5", "two-nodes", f"{VLLM}.load_format", silent=("auto", "safetensors"))
    yield Row("W6", "two-nodes", f"{VLLM}.block_size", silent=(32,))
    yield Row("W6", "two-nodes", f"{VLLM}.max_num_seqs", silent=(64,))
    yield Row("W7", "two-nodes", "policy.model_name", silent=("???",))
    age = "grpo.async_grpo.max_trajectory_age_steps"
    yield Row("W8", "apart", age, good=(1,), silent=(2, 4), extra=ASYNC)
    yield Row("W8", "apart", age, good=(2,), extra={**ASYNC, "grpo.async_grpo.in_flight_weight_updates": True})
    yield Row("W9", "two-nodes", "data.max_input_seq_length", good=(4096, 1024), silent=(8, 8192))
    yield Row("W10", "two-nodes", f"{VLLM}.max_model_len", good=(4096,), silent=(512, 262144))
    yield Row("W10", "two-nodes", "policy.generation.max_new_tokens", good=(1024,), silent=(8192,))
    yield Row("W15", "two-nodes", "grpo.val_period", silent=(0, 7), extra={"grpo.val_at_start": False})
    yield Row("W15", "two-nodes", "checkpointing.save_period", good=(10, 20), silent=(5, 3))
    yield Row("W16", "two-nodes", GBS, good=(2048, 128))
    yield Row("W17", "two-nodes", "values:ray.env", good=({"NCCL_DEBUG": {"value": "INFO"}},))


def free() -> Iterator[Row]:
    """Yield ordinary settings: whatever complains about one of these is wrong."""
    ordinary = {
        "grpo.seed": (0, 7, 123456),
        "grpo.max_num_steps": (2, 100),
        "grpo.normalize_rewards": (False,),
        "grpo.use_leave_one_out_baseline": (False,),
        "grpo.overlong_filtering": (True,),
        "grpo.max_val_samples": (512, 1024),
        "loss_fn.ratio_clip_max": (0.28,),
        "loss_fn.use_on_policy_kl_approximation": (True,),
        CORRECTION: (True,),
        "checkpointing.keep_top_k": (1, 10),
        "checkpointing.higher_is_better": (False,),
        "policy.max_grad_norm": (0.5,),
        "policy.make_sequence_length_divisible_by": (8, 64),
        "policy.optimizer.kwargs.lr": (1.0e-6, 5.0e-7),
        "policy.optimizer.kwargs.weight_decay": (0.0,),
        "policy.generation.temperature": (0.7, 1.2),
        f"{VLLM}.gpu_memory_utilization": (0.3, 0.8),
        f"{VLLM}.enforce_eager": (True,),
        f"{COLOCATED}.enabled": (True,),
        "policy.dtensor_cfg.activation_checkpointing": (True,),
        "policy.model_name": ("Qwen/Qwen2.5-7B-Instruct",),
        "values:tracking.tensorboard.enabled": (True,),
        "values:job.attempt": (2,),
    }
    for key, values in ordinary.items():
        yield Row("none", "two-nodes", key, good=values)
    yield Row("none", "gemma", "grpo.seed", good=(1,))
    yield Row("none", "apart", "grpo.seed", good=(1,))
    yield Row("none", "dynamic", "grpo.seed", good=(1,))
    yield Row("none", "smoke", "grpo.seed", good=(1,))
    yield Row("none", "one-gpu", "grpo.seed", good=(1,))


TABLES = (vllm, loss, validation, asynchronous, checkpoints, data, silent, free)
