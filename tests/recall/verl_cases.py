"""Mutations of verl's recipe for Qwen2.5 32B on two nodes of 8 GPUs: `verl`, on B200.

It has 256 prompts × 8 answers a step, 128 prompts an update, micro batches of 32 sequences, and vLLM at TP 4. Facts are
named as in the notes on verl; versions count from 0.6.1: 0.7.1, 0.8.0 and 0.9.1 are 1, 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.recall.cases import Row

V7, V8, V9 = 1, 2, 3
ACTOR, ROLLOUT, REF = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "ref"))
BATCH, MINI, ANSWERS = "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", f"{ROLLOUT}.n"
MICRO, DYNAMIC = f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.use_dynamic_bsz"
TP, NODES = f"{ROLLOUT}.tensor_model_parallel_size", "values:ray.workers.replicas"
KL_OFF = {f"{ACTOR}.use_kl_loss": False}


def batches() -> Iterator[Row]:
    """Yield batches that divide by GPUs, updates and micro batches, or do not."""
    yield Row("B1", "verl", BATCH, good=(128, 256, 384, 512, 1024), bad=(255, 129, 257, 333))
    yield Row("B1", "verl", BATCH, good=(130, 250, 254))  # 8 answers: half the GPUs are a divisor of any even number
    yield Row("B1", "verl", BATCH, good=(255, 257), extra={DYNAMIC: True})
    yield Row("B1", "verl", ANSWERS, good=(1, 2, 4, 16, 3, 5))
    yield Row("B1", "verl", NODES, good=(1, 4, 8), bad=(3, 5, 6, 7))
    yield Row("B3", "verl", MINI, good=(256, 64, 32), bad=(257, 512, 1024))
    yield Row("B3", "verl", BATCH, bad=(64, 32, 120))
    yield Row("B3", "verl", BATCH, good=(64,), extra={DYNAMIC: True})
    yield Row("B4", "verl", MICRO, good=(1, 16, 64), bad=(None,))
    both = {f"{ACTOR}.ppo_micro_batch_size": 128}
    yield Row("B4", "verl", MICRO, good=(None,), bad=(32,), extra=both)
    yield Row("B4", "verl", MICRO, good=(None,), extra={DYNAMIC: True})
    for part in (ROLLOUT, REF):
        per_gpu = f"{part}.log_prob_micro_batch_size_per_gpu"
        yield Row("B5", "verl", per_gpu, good=(1, 8, 64), bad=(None,))
        yield Row("B5", "verl", per_gpu, bad=(32,), extra={f"{part}.log_prob_micro_batch_size": 64})
    unused = f"{REF}.log_prob_micro_batch_size_per_gpu"
    yield Row("B5", "verl", unused, good=(None,), extra=KL_OFF)
    old = f"{ACTOR}.ppo_micro_batch_size"
    yield Row("B6", "verl", old, good=(16, 32, 128), bad=(8, 24, 100), extra={MICRO: None})
    yield Row("B7", "verl", MICRO, good=(2, 4, 8), bad=(3, 5, 24, 48, 128), seen=False)
    yield Row("B8", "verl", MINI, bad=(127, 3, 1), since=V7, seen=False)
    yield Row("B9", "verl", f"{ROLLOUT}.agent.num_workers", good=(4, 8, 16), bad=(3, 5, 7), until=V8, seen=False)
    yield Row("B11", "verl", f"{ROLLOUT}.log_prob_use_dynamic_bsz", good=(False,), bad=(True,), since=V8, seen=False)
    yield Row("S6", "verl", DYNAMIC, good=(False, True))
    yield Row("S7", "verl", BATCH, bad=(320, 192), since=V7, until=V8, seen=False)


def algorithm() -> Iterator[Row]:
    """Yield names of aggregations, strategies, estimators and penalties."""
    modes = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
    yield Row("A1", "verl", f"{ACTOR}.loss_agg_mode", good=modes, bad=("token_mean", "mean"))
    yield Row("A1", "verl", f"{ACTOR}.loss_agg_mode", bad=("token-sum",), until=V8)
    yield Row("A1", "verl", f"{ACTOR}.loss_agg_mode", bad=(None,))
    yield Row("A2", "verl", f"{ACTOR}.strategy", good=("fsdp", "fsdp2"), bad=("fsdp3", "ddp"), seen=False)
    yield Row("A2", "verl", f"{ACTOR}.strategy", bad=("deepspeed",), seen=False)
    yield Row("A3", "verl", f"{ACTOR}.fsdp_config.strategy", good=("fsdp", "fsdp2"), bad=("fsdp3", "FSDP2"))
    ulysses = f"{ACTOR}.ulysses_sequence_parallel_size"
    remove = "actor_rollout_ref.model.use_remove_padding"
    yield Row("A4", "verl", ulysses, good=(1,), bad=(2, 4), extra={remove: False})
    yield Row("A4", "verl", ulysses, good=(1, 2, 4), extra={remove: True})
    yield Row("A4", "verl", remove, good=(True, False))
    scheduler = f"{ACTOR}.optim.lr_scheduler_type"
    yield Row("A6", "verl", scheduler, good=("constant", "cosine"), bad=("linear", "Cosine", None))
    estimator = "algorithm.adv_estimator"
    good = ("grpo", "rloo", "reinforce_plus_plus", "remax", "opo")
    yield Row("A7", "verl", estimator, good=good, bad=("grop", "GRPO"), seen=False)
    kinds = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
    yield Row("A8", "verl", f"{ACTOR}.kl_loss_type", good=kinds, bad=("foo", "low_var", "k4"), seen=False)
    yield Row("A8", "verl", f"{ACTOR}.kl_loss_type", good=("foo",), extra=KL_OFF)
    yield Row("A9", "verl", f"{ACTOR}.clip_ratio_c", good=(3.0, 1.5), bad=(1.0, 0.5), seen=False)
    kind, horizon = "algorithm.kl_ctrl.type", "algorithm.kl_ctrl.horizon"
    on = {"algorithm.use_kl_in_reward": True, **KL_OFF}
    yield Row("A10", "verl", kind, good=("fixed", "adaptive"), bad=("fix", "none"), extra=on, seen=False)
    yield Row("A10", "verl", horizon, good=(10000,), bad=(0, -1), extra={**on, kind: "adaptive"}, seen=False)
    for part in (ACTOR, ROLLOUT):
        yield Row("A11", "verl", f"{part}.foo", bad=(1, None))
    yield Row("A11", "verl", f"{ACTOR}.ppo_micro_batch_per_gpu", bad=(8,))
    yield Row("A11", "verl", f"{ROLLOUT}.tensor_parallel_size", bad=(4,))
    yield Row("A11", "verl", f"{ROLLOUT}.gpu_memory_utilisation", bad=(0.5,))


def rollout() -> Iterator[Row]:
    """Yield the rollout: engine, mode, parallelism, lengths, sampling."""
    yield Row("R1", "verl", f"{ROLLOUT}.name", good=("vllm",), bad=("vlm", "hf2"), seen=False)
    yield Row("R2", "verl", f"{ROLLOUT}.mode", good=("async",), bad=("sync",), since=V7)
    yield Row("R2", "verl", f"{ROLLOUT}.mode", bad=("asynchronous",), seen=False)
    yield Row("R3", "verl", TP, good=(1, 2, 8), bad=(3, 5, 6, 7), seen=False)
    yield Row("R3", "verl", TP, bad=(32, 64), seen=False)
    yield Row("R4", "verl", TP, bad=(12,), extra={NODES: 3}, seen=False)
    yield Row("R5", "verl", TP, bad=(16,), seen=False)
    yield Row("R6", "verl", f"{ROLLOUT}.pipeline_model_parallel_size", good=(1,), bad=(2, 4))
    experts = f"{ROLLOUT}.expert_parallel_size"
    yield Row("R7", "verl", experts, good=(1, 4), bad=(2, 3, 8))
    yield Row("R7", "verl", experts, good=(8,), extra={f"{ROLLOUT}.data_parallel_size": 2})
    length = f"{ROLLOUT}.max_model_len"
    yield Row("R8", "verl", length, good=(1536, 4096, 32768), bad=(65536, 131072), since=V7, seen=False)
    yield Row("R10", "verl", length, bad=(512, 256), seen=False)
    sampling, temperature = f"{ROLLOUT}.val_kwargs.do_sample", f"{ROLLOUT}.temperature"
    yield Row("R11", "verl", temperature, good=(1.0, 0.5), bad=(0, 0.0), extra={sampling: True})
    yield Row("R11", "verl", temperature, good=(0,), extra={sampling: False})
    rank = "actor_rollout_ref.model.lora_rank"
    alpha = {"actor_rollout_ref.model.lora_alpha": 16}
    yield Row("R12", "verl", rank, good=(8, 64, 512), bad=(513, 1024), extra=alpha)
    yield Row("R12", "verl", rank, good=(0,))


def program() -> Iterator[Row]:
    """Yield data, logging, the cluster, and resuming."""
    files = "data.train_files"
    yield Row("D1", "verl", files, bad=("/data/gsm8k/train.csv",), seen=False)
    yield Row("D1", "verl", files, good=("/data/gsm8k/train.parquet",))
    yield Row("D1", "verl", files, bad=("/data/gsm8k/train.jsonl",), until=0, seen=False)
    yield Row("K3", "verl", "ray_kwargs.ray_init.num_cpus", good=(None,), bad=(8, 64))
    yield Row("K1", "verl", "trainer.nnodes", good=(2,), bad=(1, 3))
    yield Row("K1", "verl", "trainer.n_gpus_per_node", good=(8,), bad=(4, 16))
    yield Row("K1", "verl", "values:job.nodes", good=(1, 2), bad=(3, 4))
    yield Row("K2", "verl", "values:accelerator.worker.cpu", good=("24", "64"), bad=("23", "16"), since=V7)
    mode = "trainer.resume_mode"
    yield Row("V8", "verl", mode, good=("auto", "disable"), bad=("atuo", "resume"), seen=False)
    path = "trainer.resume_from_path"
    chosen = {mode: "resume_path"}
    yield Row(
        "V7", "verl", path, good=("/data/runs/a/global_step_10",), bad=(None, "/data/runs/a"), extra=chosen, seen=False
    )
    yield Row("V6", "verl", "trainer.default_hdfs_dir", good=(None,), bad=("hdfs://a/b",), until=V8, seen=False)
    trainer = "trainer.v1.trainer_mode"
    modes = ("sync", "colocate_async")
    yield Row("V10", "verl", trainer, good=modes, bad=("async", "foo"), since=V9, exists=V9, seen=False)
    yield Row("L1", "verl", "trainer.logger", bad=(["consol"], ["console", "tensorbord"]), seen=False)
    yield Row("H2", "verl", "data.train_batch_size", bad=("${data.nothing}", "${oc.env:NO_SUCH_VARIABLE}"))
    yield Row("types", "verl", "trainer.total_epochs", bad=("two",), seen=False)
    yield Row("types", "verl", BATCH, bad=("abc", None))
    yield Row("types", "verl", MINI, bad=("abc",), silent=(0, -128))
    yield Row("types", "verl", ANSWERS, bad=("eight",))
    yield Row("types", "verl", ACTOR, bad=(None, 1))
    yield Row("types", "verl", ROLLOUT, bad=([],))


def silent() -> Iterator[Row]:
    """Yield mistakes that verl takes without a word."""
    coefficient = "algorithm.kl_ctrl.kl_coef"
    yield Row("S1", "verl", coefficient, silent=(0.001, 0.01))
    yield Row("S1", "verl", "algorithm.use_kl_in_reward", silent=(True,))
    yield Row("S1", "verl", f"{ACTOR}.use_kl_loss", silent=(False,))
    typos = (
        {"trainer.nnodse": 2},
        {"data.train_batchsize": 128},
        {"data.foo": 1},
        {"algorithm.adv_estimater": "grpo"},
        {"trianer.total_epochs": 4},
        {"trainer.save_frequency": 5},
        {"reward.foo": 1},
    )
    yield Row("S2", "verl", "", silent=typos[:-1])
    yield Row("S2", "verl", "", silent=typos[-1:], exists=V7)
    yield Row("S3", "verl", f"{ACTOR}.use_kl_loss", silent=("no", "false", 1))
    yield Row("S3", "verl", f"{ACTOR}.optim.lr", silent=("fast", "1e-6"))
    yield Row("S3", "verl", "trainer.val_before_train", silent=("no",))
    name = {"custom_reward_function.path": "/data/code/x.py", "custom_reward_function.name": "score"}
    yield Row("S4", "verl", "", silent=(name, {"reward_model.reward_manager": "dapo"}), exists=V9)
    yield Row("S4", "verl", "", good=(name,), exists=0)
    yield Row("S5", "verl", f"{ACTOR}.fsdp_config.strategy", silent=("fsdp2",), extra={f"{ACTOR}.strategy": "fsdp"})
    yield Row("S8", "verl", ANSWERS, silent=(1,), extra={BATCH: 512})
    yield Row("S9", "verl", "data.filter_overlong_prompts", good=(True,), silent=(False,))
    yield Row("S12", "verl", "trainer.max_actor_ckpt_to_keep", good=(2, 3, None))


def free() -> Iterator[Row]:
    """Yield ordinary settings: whatever complains about one of these is wrong."""
    ordinary = {
        "data.max_prompt_length": (256, 512),
        "data.max_response_length": (512, 1024),
        "data.shuffle": (True, False),
        "data.seed": (1, 42),
        "data.truncation": ("left", "right", "middle"),
        f"{ACTOR}.optim.lr": (5.0e-7, 2.0e-6),
        f"{ACTOR}.optim.weight_decay": (0.0, 0.1),
        f"{ACTOR}.optim.lr_warmup_steps": (0, 10),
        f"{ACTOR}.grad_clip": (0.5, 1.0),
        f"{ACTOR}.clip_ratio": (0.1, 0.2),
        f"{ACTOR}.clip_ratio_low": (0.1,),
        f"{ACTOR}.clip_ratio_high": (0.28,),
        f"{ACTOR}.kl_loss_coef": (0.0, 0.01),
        f"{ACTOR}.entropy_coeff": (0.001,),
        f"{ACTOR}.ppo_epochs": (1, 2),
        f"{ACTOR}.shuffle": (True,),
        f"{ACTOR}.fsdp_config.param_offload": (True,),
        f"{ACTOR}.fsdp_config.optimizer_offload": (True,),
        f"{REF}.fsdp_config.param_offload": (True,),
        f"{ROLLOUT}.temperature": (0.7, 1.0),
        f"{ROLLOUT}.top_p": (0.9, 1.0),
        f"{ROLLOUT}.top_k": (-1, 50),
        f"{ROLLOUT}.gpu_memory_utilization": (0.4, 0.7),
        f"{ROLLOUT}.enforce_eager": (True, False),
        f"{ROLLOUT}.max_num_seqs": (128, 1024),
        f"{ROLLOUT}.max_num_batched_tokens": (4096, 16384),
        "actor_rollout_ref.model.enable_gradient_checkpointing": (True, False),
        "actor_rollout_ref.model.path": ("Qwen/Qwen2.5-7B-Instruct",),
        "algorithm.norm_adv_by_std_in_grpo": (True, False),
        "trainer.total_epochs": (1, 15),
        "trainer.test_freq": (-1, 5),
        "trainer.save_freq": (-1, 20),
        "trainer.val_before_train": (False,),
        "trainer.log_val_generations": (0, 10),
        "values:job.attempt": (2,),
        "values:tracking.tensorboard.enabled": (False,),
    }
    for key, values in ordinary.items():
        yield Row("none", "verl", key, good=values)


TABLES = (batches, algorithm, rollout, program, silent, free)
