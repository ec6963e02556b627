"""Everything but batches: actor, rollout, KL, data, resuming."""

from __future__ import annotations

from postrender.rules import keys
from postrender.rules.values import WARNING, Said, one_of, shown, within
from postrender.rules.verl import (
    ACTOR,
    BATCH,
    CHECKED,
    MODEL,
    NODES,
    ROLLOUT,
    STEP,
    WORKER,
    book,
    gpus,
    is_megatron,
    sequence_parallel,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.effective import Effective

_book = book()
RULES = _book.rules
_TP = f"{ROLLOUT}.tensor_model_parallel_size"
_KL = ("kl_coef", "kl_loss_coef")
keys.add(_book, "trainer/config/ppo_trainer.yaml:1 at 0.7.1")
_MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")


@_book.rule(
    "loss-aggregation",
    "A1",
    f"{ACTOR}.loss_agg_mode",
    title="the loss is aggregated in a way that verl has",
    why=CHECKED,
    fix="write token-mean, the default, or another one of the list",
    source="workers/config/actor.py:210 at 0.7.1",
)
def _aggregation(run: Effective) -> str | None:
    return one_of(f"{ACTOR}.loss_agg_mode", (*_MODES, *(["token-sum"] if run.since("0.9.1") else [])))(run)


@_book.rule(
    "strategy",
    "A2 A3",
    f"{ACTOR}.strategy {ACTOR}.fsdp_config.strategy",
    title="the actor's strategy is one that verl has",
    why=WORKER,
    fix="write fsdp2, fsdp or megatron",
    source="trainer/main_ppo.py:174 at 0.7.1",
)
def _strategy(run: Effective) -> str | None:
    more = ["veomni", "torchtitan"] if run.since("0.7.1") else []
    more += ["fsdp_turbo"] if run.since("0.9.1") else []
    return one_of(f"{ACTOR}.strategy", ("fsdp", "fsdp2", "megatron", *more))(run)


@_book.rule(
    "strategy-without-effect",
    "S5",
    f"{ACTOR}.fsdp_config.strategy {ACTOR}.strategy",
    title="FSDP's version is chosen by actor.strategy",
    why="silent: actor.fsdp_config.strategy is not read, and FSDP 1 runs",
    fix="set actor.strategy to fsdp2, and remove actor.fsdp_config.strategy",
    source="workers/fsdp_workers.py:169 at 0.7.1",
)
def _ineffective(run: Effective) -> Iterator[Said]:
    path = f"{ACTOR}.fsdp_config.strategy"
    given, counts = run.at(path), run.at(f"{ACTOR}.strategy")
    if run.given_has(path) and not is_megatron(run) and given != counts:
        what = f"actor.fsdp_config.strategy is {shown(given)}, and actor.strategy {shown(counts)}"
        yield Said(what, proposed={f"{ACTOR}.strategy": given})


@_book.rule(
    "sequence-parallel-padding",
    "A4",
    f"{MODEL}.use_remove_padding {ACTOR}.ulysses_sequence_parallel_size",
    title="sequence parallelism needs sequences without padding",
    why=CHECKED,
    fix="set actor_rollout_ref.model.use_remove_padding to true",
    source="workers/config/actor.py:320 at 0.7.1",
)
def _padding(run: Effective) -> Iterator[Said]:
    if not is_megatron(run) and sequence_parallel(run) > 1 and not run.on(f"{MODEL}.use_remove_padding"):
        what = f"ulysses_sequence_parallel_size is {sequence_parallel(run)}, and use_remove_padding is off"
        yield Said(what, proposed={f"{MODEL}.use_remove_padding": True})


@_book.rule(
    "scheduler",
    "A6",
    f"{ACTOR}.optim.lr_scheduler_type",
    title="the learning rate is constant or follows a cosine",
    why=CHECKED,
    fix="write constant or cosine",
    source="workers/config/optimizer.py:122 at 0.7.1",
)
def _scheduler(run: Effective) -> str | None:
    return None if is_megatron(run) else one_of(f"{ACTOR}.optim.lr_scheduler_type", ("constant", "cosine"))(run)


@_book.rule(
    "advantage-estimator",
    "A7",
    "algorithm.adv_estimator",
    title="the advantage estimator is one that this version has",
    why=STEP,
    fix="write grpo",
    source="trainer/ppo/core_algos.py:149 at 0.7.1",
)
def _estimator(run: Effective) -> str | None:
    known = run.catalogue.names.get("advantageEstimators")
    return one_of("algorithm.adv_estimator", known)(run) if known else None


@_book.rule(
    "kl-type",
    "A8",
    f"{ACTOR}.kl_loss_type",
    title="the KL loss is of a type that verl has",
    why=STEP,
    fix="write low_var_kl, the default",
    source="trainer/ppo/core_algos.py:1450 at 0.7.1",
)
def _kl_type(run: Effective) -> str | None:
    if not run.on(f"{ACTOR}.use_kl_loss"):
        return None
    kinds = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
    return one_of(f"{ACTOR}.kl_loss_type", (*kinds, *(f"{kind}+" for kind in kinds)))(run)


@_book.rule(
    "dual-clip",
    "A9",
    f"{ACTOR}.clip_ratio_c",
    title="dual clipping is above 1",
    why=STEP,
    fix="write 3.0, the default",
    source="trainer/ppo/core_algos.py:1242 at 0.7.1",
)
def _dual_clip(run: Effective) -> str | None:
    return within(f"{ACTOR}.clip_ratio_c", above=1)(run)


@_book.rule(
    "kl-control",
    "A10",
    "algorithm.kl_ctrl.type algorithm.kl_ctrl.horizon",
    title="KL control is fixed, or adaptive over a horizon",
    why=WORKER,
    fix="write fixed, or adaptive with a positive horizon",
    source="trainer/ppo/core_algos.py:209 at 0.7.1",
)
def _control(run: Effective) -> str | None:
    if not run.on("algorithm.use_kl_in_reward"):
        return None
    kind = one_of("algorithm.kl_ctrl.type", ("fixed", "adaptive"))(run)
    adaptive = run.at("algorithm.kl_ctrl.type") == "adaptive"
    return kind or (within("algorithm.kl_ctrl.horizon", above=0)(run) if adaptive else None)


@_book.rule(
    "kl-coefficient-without-switch",
    "S1",
    f"{ACTOR}.kl_loss_coef algorithm.kl_ctrl.kl_coef",
    title="a KL coefficient is read only where its switch is on",
    why="silent: no KL term and no reference model, although the values name a coefficient",
    fix="set actor.use_kl_loss or algorithm.use_kl_in_reward to true, or remove the coefficient",
    source="trainer/ppo/core_algos.py:1400 at 0.7.1",
    severity=WARNING,
)
def _coefficient(run: Effective) -> Iterator[Said]:
    for path, switch in (
        (f"{ACTOR}.kl_loss_coef", f"{ACTOR}.use_kl_loss"),
        ("algorithm.kl_ctrl.kl_coef", "algorithm.use_kl_in_reward"),
    ):
        if run.given_has(path) and run.at(path) and not run.on(switch):
            yield Said(f"{path} is {shown(run.at(path))}, and {switch} is off", keys=[path])


@_book.rule(
    "rollout-name",
    "R1 R2",
    f"{ROLLOUT}.name {ROLLOUT}.mode",
    title="the rollout engine is named, and runs as this version can run it",
    why=WORKER,
    fix="write name: vllm, and mode: async from 0.7.1 on",
    source="workers/rollout/base.py:100 at 0.7.1",
)
def _rollout(run: Effective) -> str | None:
    name, mode = run.at(f"{ROLLOUT}.name"), run.at(f"{ROLLOUT}.mode")
    if name in (None, "???"):
        return "rollout.name is not given"
    if run.since("0.7.1") and mode == "sync":
        return "rollout.mode is sync, which this version has no more"
    known = ("vllm", "sglang", "hf", "trtllm")
    return f"rollout.name is {shown(name)}, expected one of {', '.join(known)}" if name not in known else None


@_book.rule(
    "rollout-gpus-not-divisible",
    "R3 R4",
    f"{_TP} {ROLLOUT}.data_parallel_size {NODES}",
    title="the GPUs, of all nodes and of one, are a multiple of what one engine takes",
    why=WORKER,
    fix="choose a tensor_model_parallel_size that divides the GPUs of a node",
    source="workers/engine_workers.py:554 at 0.7.1",
)
def _engines(run: Effective) -> str | None:
    tensor, data = run.integer(_TP), run.at(f"{ROLLOUT}.data_parallel_size", 1)
    stages = run.at(f"{ROLLOUT}.pipeline_model_parallel_size", 1)
    if not isinstance(data, int) or not isinstance(stages, int):
        return None
    size = tensor * data * stages
    parts = f"rollout's TP {tensor} × DP {data} × PP {stages} = {size}"
    if size < 1 or gpus(run) % size:
        return f"{gpus(run)} GPUs are no multiple of {parts}"
    if size > run.gpus and size % run.gpus:
        return f"{parts} is more than a node's {run.gpus} GPUs and no multiple of them"
    if data > 1 and run.gpus % tensor:
        return f"a node's {run.gpus} GPUs are no multiple of rollout's TP {tensor}"
    return None


@_book.rule(
    "rollout-stages",
    "R6 R7",
    f"{ROLLOUT}.pipeline_model_parallel_size {ROLLOUT}.expert_parallel_size",
    title="rollout has one pipeline stage, and experts on all its GPUs",
    why=WORKER,
    fix="set pipeline_model_parallel_size to 1, and expert_parallel_size to 1 or TP × DP",
    source="workers/config/rollout.py:292 at 0.7.1",
)
def _stages(run: Effective) -> str | None:
    if run.at(f"{ROLLOUT}.pipeline_model_parallel_size", 1) != 1:
        return f"rollout.pipeline_model_parallel_size is {run.integer(f'{ROLLOUT}.pipeline_model_parallel_size')}"
    experts = run.at(f"{ROLLOUT}.expert_parallel_size", 1)
    size = run.integer(_TP) * run.integer(f"{ROLLOUT}.data_parallel_size")
    wrong = isinstance(experts, int) and experts > 1 and experts != size and run.at(f"{ROLLOUT}.name") != "trtllm"
    return f"rollout.expert_parallel_size is {experts}, and TP × DP is {size}" if wrong else None


@_book.rule(
    "validation-temperature",
    "R11",
    f"{ROLLOUT}.temperature {ROLLOUT}.val_kwargs.do_sample",
    title="validation that samples has a temperature",
    why=CHECKED,
    fix="set rollout.temperature above 0, or val_kwargs.do_sample to false",
    source="utils/config.py:187 at 0.7.1",
)
def _temperature(run: Effective) -> str | None:
    cold = run.on(f"{ROLLOUT}.val_kwargs.do_sample") and run.number(f"{ROLLOUT}.temperature") <= 0
    return (
        f"val_kwargs.do_sample is on, and rollout.temperature is {run.number(f'{ROLLOUT}.temperature')}"
        if cold
        else None
    )


@_book.rule(
    "lora-rank",
    "R12",
    f"{MODEL}.lora_rank",
    title="vLLM can load the LoRA's rank",
    why=CHECKED,
    fix="choose a rank of 512 or less",
    source="utils/config.py:199 at 0.7.1",
)
def _lora(run: Effective) -> str | None:
    return within(f"{MODEL}.lora_rank", most=512)(run) if run.at(f"{ROLLOUT}.name") == "vllm" else None


@_book.rule(
    "data-files",
    "D1",
    "data.train_files data.val_files",
    title="data files are Parquet, or JSON from 0.7.1 on",
    why=WORKER,
    fix="run task prepare-data, which writes Parquet",
    source="utils/dataset/rl_dataset.py:163 at 0.7.1",
)
def _files(run: Effective) -> Iterator[Said]:
    endings = (".parquet", ".json", ".jsonl") if run.since("0.7.1") else (".parquet",)
    for path in ("data.train_files", "data.val_files"):
        given = run.config.get("data", {}).get(path.partition(".")[2])
        for file in given if isinstance(given, list) else [given]:
            if isinstance(file, str) and not file.endswith(endings):
                yield Said(f"{path} is {shown(file)}, expected a name that ends in {' or '.join(endings)}", keys=[path])


@_book.rule(
    "logger",
    "L1",
    "trainer.logger",
    title="each logger is one that verl has",
    why="it is met at the start of the training, when the model is loaded on all GPUs",
    fix="write console, tensorboard, wandb or mlflow; tracking.* of the values does it for you",
    source="utils/tracking.py:67 at 0.7.1",
)
def _logger(run: Effective) -> str | None:
    known = ["wandb", "mlflow", "swanlab", "vemlp_wandb", "tensorboard", "console", "clearml", "trackio", "file"]
    known += ["rl_insight", "tracking"] if run.since("0.9.1") else ["tracking"]
    given = run.at("trainer.logger")
    wrong = [name for name in (given if isinstance(given, list) else [given]) if name not in known]
    return f"trainer.logger has {', '.join(map(shown, wrong))}" if wrong else None


@_book.rule(
    "cpus-for-gpus",
    "K2",
    "=accelerator.worker.cpu",
    title="a node offers three CPUs for each GPU",
    why="silent: the job waits for ever for a placement group that no node can hold",
    fix="give accelerator.worker.cpu three for each GPU",
    source="single_controller/ray/base.py:157 at 0.7.1",
)
def _cpus(run: Effective) -> str | None:
    cpus, share = str(run.value("accelerator.worker.cpu")), 3 if run.since("0.7.1") else 1
    few = cpus.isdecimal() and int(cpus) < share * run.gpus
    return f"a worker has {cpus} CPUs, and verl reserves {share} for each of its {run.gpus} GPUs" if few else None


@_book.rule(
    "resume-mode",
    "V7 V8",
    "trainer.resume_mode trainer.resume_from_path",
    title="resuming is automatic, off, or from a named step",
    why=WORKER,
    fix="write auto, disable, or resume_path with a folder named global_step_N",
    source="trainer/ppo/ray_trainer.py:946 at 0.7.1",
)
def _resume(run: Effective) -> str | None:
    wrong = one_of("trainer.resume_mode", ("auto", "disable", "resume_path"))(run)
    if wrong or run.at("trainer.resume_mode") != "resume_path":
        return wrong
    path = run.at("trainer.resume_from_path")
    return None if isinstance(path, str) and "global_step_" in path else f"trainer.resume_from_path is {shown(path)}"


@_book.rule(
    "hdfs-resume",
    "V6",
    "trainer.default_hdfs_dir",
    title="HDFS holds no checkpoints to resume from",
    why=WORKER,
    fix="remove trainer.default_hdfs_dir",
    source="trainer/ppo/ray_trainer.py:929 at 0.7.1",
)
def _hdfs(run: Effective) -> str | None:
    given = run.at("trainer.default_hdfs_dir")
    return (
        f"trainer.default_hdfs_dir is {shown(given)}" if given and run.at("trainer.resume_mode") != "disable" else None
    )


@_book.rule(
    "trainer-mode",
    "V10",
    "trainer.v1.trainer_mode",
    title="the trainer's mode is one that verl has",
    why=WORKER,
    fix="write sync",
    source="trainer/ppo/v1/trainer_base.py:2023 at 0.9.1",
    since="0.9.1",
)
def _mode(run: Effective) -> str | None:
    return one_of("trainer.v1.trainer_mode", ("sync", "colocate_async", "separate_async"))(run)


@_book.rule(
    "legacy-reward",
    "S4",
    "custom_reward_function.path reward_model.reward_manager",
    title="rewards are described under reward",
    why="silent: the old section is not read any more, and the default reward counts",
    fix="write reward.custom_reward_function, or job.rewards of the values",
    source="trainer/config/ppo_trainer.yaml:1 at 0.9.1",
    since="0.9.1",
)
def _legacy(run: Effective) -> Iterator[Said]:
    for path in ("custom_reward_function.path", "reward_model.reward_manager"):
        if run.given_has(path) and run.at(path) is not None:
            yield Said(f"{path} is not read by {run.version}", keys=[path])


@_book.rule(
    "long-prompts-cut",
    "S9",
    "data.filter_overlong_prompts data.truncation",
    title="prompts that are too long are left out",
    why="silent from 0.7.1 on: data.truncation is not read, and such prompts lose their beginning",
    fix="set data.filter_overlong_prompts to true",
    source="utils/dataset/rl_dataset.py:120 at 0.7.1",
    severity=WARNING,
    since="0.7.1",
)
def _overlong(run: Effective) -> str | None:
    silent = run.given_has("data.truncation") and not run.on("data.filter_overlong_prompts")
    return (
        f"data.truncation is {shown(run.at('data.truncation'))}, and filter_overlong_prompts is off" if silent else None
    )


@_book.rule(
    "batch-of-nothing",
    "B1",
    BATCH,
    title="a step has prompts",
    why=CHECKED,
    fix="choose a train_batch_size of 1 or more",
    source="trainer/ppo/ray_trainer.py:368 at 0.7.1",
)
def _nothing(run: Effective) -> str | None:
    return within(BATCH, least=1)(run)
