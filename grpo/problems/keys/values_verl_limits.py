"""Numbers below their minimum, and values that the workers look up: sizes, worker counts, precision, device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import one_of, quoted, within
from grpo.problems.frameworks.verl import TOPIC, failing
from grpo.values.frameworks.verl import (
    ACTOR,
    DYNAMIC,
    MODEL,
    REF,
    ROLLOUT,
    SAMPLES,
    gpus,
    has_engine_workers,
    has_new_trainer,
    uses_reference,
    validates,
)
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_DEVICE: Final = "trainer.device"
_HYBRID: Final = "actor_rollout_ref.hybrid_engine"
_SHARDS: Final = f"{ACTOR}.fsdp_config.fsdp_size"
_PRECISIONS: Final = (16, "16", "fp16", "float16", 32, "32", "fp32", "float32", "bf16", "bfloat16")
_LOOP: Final = f"{ROLLOUT}.agent.default_agent_loop"
_TRANSFER: Final = f"{ROLLOUT}.checkpoint_engine"
_STALE: Final = "trainer.v1.sampler.max_off_policy_strategy"
# What verl compares or multiplies, whatever else is set.
_COMPUTED: Final = (
    *("data.train_files", "data.val_files", "data.dataloader_num_workers"),
    *("data.max_prompt_length", "data.max_response_length"),
    *(f"trainer.{name}" for name in ("total_epochs", "save_freq", "test_freq", "critic_warmup")),
    *(f"{MODEL}.{name}" for name in ("path", "lora_rank")),
    *(f"{ACTOR}.{name}" for name in ("ppo_mini_batch_size", "ppo_epochs", "entropy_coeff")),
    *(f"{ACTOR}.{name}" for name in ("ulysses_sequence_parallel_size", "fsdp_config.fsdp_size")),
    *(f"{ACTOR}.optim.{name}" for name in ("lr", "weight_decay", "lr_warmup_steps")),
    *(f"{ROLLOUT}.{name}" for name in ("n", "temperature", "top_p", "top_k", "agent.num_workers")),
    *(f"{ROLLOUT}.{name}_parallel_size" for name in ("tensor_model", "pipeline_model", "data", "expert")),
)
_LOG_DYNAMIC: Final = "log_prob_use_dynamic_bsz"
_REPLAY: Final = f"{ACTOR}.router_replay.mode"
_MIXED: Final = ("param_dtype", "reduce_dtype", "buffer_dtype")


@TOPIC.problem("", fails=Fails.AT_SETUP, source="trainer/ppo/v1/trainer_base.py:746 at 0.9.1")
def size_of_nothing(run: RunConfig) -> Iterator[Finding]:
    """a length, a size, a number or a seed is below its minimum

    Why: the run fails when it reads its data, or at its first batch, when GPUs are already billed
    Fix: set a number of 1 or more, or remove the line to use the default
    """
    paths = ["data.max_prompt_length", "data.max_response_length", f"{ROLLOUT}.prompt_length"]
    paths += [f"{ROLLOUT}.response_length", SAMPLES, *([f"{ROLLOUT}.val_kwargs.n"] if validates(run) else [])]
    # The new trainer reads 0 as the default.
    batches = ["data.val_batch_size", "data.gen_batch_size"]
    paths += [] if has_new_trainer(run) else batches
    if run.since("0.7.1"):
        paths += ["reward.num_workers", f"{_TRANSFER}.update_weights_bucket_megabytes"]
    if run.on("data.filter_overlong_prompts"):
        paths.append("data.filter_overlong_prompts_workers")
    if not run.since("0.8.0"):
        paths.append("actor_rollout_ref.nccl_timeout")
    if has_new_trainer(run):
        paths.append(f"{ROLLOUT}.agent.num_workers")
    if not has_engine_workers(run):
        sections = (each for each in (ROLLOUT, REF)[: 1 + uses_reference(run)] if not run.on(f"{each}.{_LOG_DYNAMIC}"))
        paths += [f"{each}.log_prob_micro_batch_size_per_gpu" for each in sections]
    given = [path for path in paths if run.given_has(path)]
    yield from failing(run, {path: within(path, least=1) for path in given})
    # From 0 on.
    counts = ["data.dataloader_num_workers", f"{ROLLOUT}.seed", f"{ROLLOUT}.trace.max_samples_per_step_per_worker"]
    counts += batches if has_new_trainer(run) else []
    yield from failing(run, {path: within(path, least=0) for path in counts})


@TOPIC.problem("", fails=Fails.AT_SETUP, source="utils/profiler/config.py:88 at 0.9.1")
def profiler_range(run: RunConfig) -> Iterator[Finding]:
    """a number in a profiler's settings is below its minimum

    Why: verl rejects it when it builds its workers, even with no profiler on, when the cluster is already running
    Fix: set a number in that range, or remove the line to use the default
    """
    least = dict.fromkeys(("torch_memory.trace_alloc_max_entries", "torch_memory.stack_depth"), 1)
    if run.since("0.9.1"):
        least["torch_memory.memory_snapshot_num_steps"] = 1
        steps = ("skip_first", "wait", "warmup", "active", "repeat")
        least |= dict.fromkeys((f"torch.schedule.{step}" for step in steps), 0)
    roles = [f"{role}.profiler.tool_config" for role in (ACTOR, ROLLOUT, REF)]
    paths = {
        f"{place}.{name}": low
        for place in (*roles, "global_profiler.global_tool_config")
        for name, low in least.items()
    }
    given = {path: low for path, low in paths.items() if run.given_has(path)}
    yield from failing(run, {path: within(path, least=low) for path, low in given.items()})


@TOPIC.problem(_SHARDS, fails=Fails.AT_LOADING, source="workers/engine/fsdp/utils.py:51 at 0.9.1")
def shards_not_dividing_gpus(run: RunConfig) -> str | None:
    """fsdp_size does not divide the number of GPUs

    Fix: set it to -1 for all GPUs, or to the number of GPUs on a node
    """
    size = run.integer(_SHARDS)
    whole = size < 0 or size >= gpus(run) or (size > 0 and gpus(run) % size == 0)
    return None if whole else f"{gpus(run)} GPUs are not a multiple of fsdp_size {size}"


@TOPIC.problem(
    f"{ACTOR}.fsdp_config.model_dtype {ACTOR}.fsdp_config.mixed_precision",
    fails=Fails.AT_LOADING,
    source="utils/torch_dtypes.py:62 at 0.9.1",
)
def precision(run: RunConfig) -> Iterator[Finding]:
    """a precision of weights or gradients is unknown to verl

    Fix: use fp32, bf16 or fp16
    """
    sections = [ACTOR, *([REF] if uses_reference(run) else [])]
    for section in (f"{each}.fsdp_config" for each in sections):
        # Newer workers do not look at the key dtype.
        kinds = ["model_dtype", *([] if has_engine_workers(run) else ["dtype"])]
        kinds += [f"mixed_precision.{name}" for name in _MIXED]
        paths = [f"{section}.{name}" for name in kinds if run.given_has(f"{section}.{name}")]
        # Without a model_dtype, verl chooses one.
        known = {path: (*_PRECISIONS, *([None] if path.endswith("model_dtype") else [])) for path in paths}
        yield from failing(run, {path: one_of(path, words) for path, words in known.items()})


@TOPIC.problem(
    _REPLAY,
    fails=Fails.AT_SETUP,
    source="workers/config/actor.py:63 at 0.7.1",
    since="0.7.1",
    before="0.9.1",
)
def router_replay(run: RunConfig) -> str | None:
    """this version of verl does not know that kind of router replay

    Fix: remove actor.router_replay: only Megatron reads it
    """
    return one_of(_REPLAY, ("disabled", "R2", "R3"))(run)


@TOPIC.problem(_DEVICE, fails=Fails.PENDING, source="single_controller/ray/base.py:140 at 0.7.1")
def device(run: RunConfig) -> str | None:
    """trainer.device is not cuda, verl's name for NVIDIA's GPUs

    Why: the job waits forever for a resource that no node has; 0.9.1 rejects the value
    Fix: use cuda, the default
    """
    return one_of(_DEVICE, ("cuda",))(run)


@TOPIC.problem(
    _HYBRID,
    fails=Fails.AT_SETUP,
    source="trainer/ppo/ray_trainer.py:273 at 0.7.1",
    logs="Currently, only support hybrid engine",
)
def hybrid_engine(run: RunConfig) -> str | None:
    """actor_rollout_ref.hybrid_engine is off, so training and generation do not share GPUs

    Why: the trainer rejects it only at startup, when the cluster is already running and billing
    Fix: remove actor_rollout_ref.hybrid_engine
    """
    refused = not has_new_trainer(run) and not run.on(_HYBRID)
    return f"{_HYBRID} is {quoted(run.at(_HYBRID))}" if refused else None


@TOPIC.problem("", fails=Fails.AT_SETUP, source="trainer/ppo/v1/trainer_base.py:481 at 0.9.1")
def null_value(run: RunConfig) -> Iterator[Finding]:
    """a value that verl computes with is null

    Why: the run fails when it reads its data, when it loads the model, or in its first step
    Fix: remove the line to use the default, or set a value
    """
    for path in (*_COMPUTED, *_computed_here(run)):
        # A reference is never a null here, and some are known to the running job only.
        if run.given_has(path) and value_at(run.given, tuple(path.split("."))) is None:
            yield Finding(f"{path} is null", keys=[path])


def _computed_here(run: RunConfig) -> Iterator[str]:
    """Yield the keys that this version computes with, and those that other settings make it compute with."""
    yield f"{ACTOR}.optim.clip_grad" if has_engine_workers(run) else f"{ACTOR}.grad_clip"
    if run.at(f"{ACTOR}.policy_loss.loss_mode") == "vanilla":
        yield f"{ACTOR}.clip_ratio_c"
    if run.on(DYNAMIC):
        yield f"{ACTOR}.ppo_max_token_len_per_gpu"
    for section in (ROLLOUT, REF)[: 1 + uses_reference(run)]:
        if run.on(f"{section}.{_LOG_DYNAMIC}"):
            yield f"{section}.log_prob_max_token_len_per_gpu"
    if run.on(f"{ACTOR}.use_kl_loss"):
        yield f"{ACTOR}.kl_loss_coef"
    if run.on("algorithm.use_kl_in_reward"):
        yield "algorithm.kl_ctrl.kl_coef"
    if run.at(f"{ACTOR}.optim.lr_warmup_steps") == -1:
        yield f"{ACTOR}.optim.lr_warmup_steps_ratio"
    if run.at(f"{ACTOR}.optim.lr_scheduler_type") == "cosine":
        yield f"{ACTOR}.optim.num_cycles"
    if run.since("0.9.1"):
        yield f"{ROLLOUT}.max_num_seqs"
    if run.since("0.7.1"):
        yield from ("reward.num_workers", f"{_TRANSFER}.update_weights_bucket_megabytes")


@TOPIC.problem(
    _LOOP,
    fails=Fails.AT_FIRST_STEP,
    source="experimental/agent_loop/agent_loop.py:678 at 0.9.1",
    logs="not registered, registered agent loops",
)
def agent_loop(run: RunConfig) -> str | None:
    """the agent loop is unknown to verl

    Why: the run fails at the first generation, after the model is loaded on all GPUs
    Fix: use single_turn_agent, the default; agent_loop_config_path adds your own
    """
    own = run.on(f"{ROLLOUT}.agent.agent_loop_config_path") or run.on(f"{MODEL}.external_lib")
    if own or run.at(f"{ROLLOUT}.mode") != "async":
        return None
    return one_of(_LOOP, run.catalogue.names["agentLoops"])(run)


@TOPIC.problem(
    f"{_TRANSFER}.backend",
    fails=Fails.AT_LOADING,
    source="checkpoint_engine/base.py:418 at 0.9.1",
    since="0.7.1",
)
def checkpoint_engine(run: RunConfig) -> str | None:
    """the checkpoint engine's backend is unknown to verl

    Fix: use naive, the default
    """
    known = run.catalogue.names["checkpointEngines"]
    return None if run.on(f"{_TRANSFER}.custom_backend_module") else one_of(f"{_TRANSFER}.backend", known)(run)


@TOPIC.problem(
    f"{ROLLOUT}.trace.backend", fails=Fails.SILENT, source="utils/rollout_trace.py:89 at 0.9.1", severity=WARNING
)
def trace_backend(run: RunConfig) -> str | None:
    """the backend for generation traces is unknown to this version

    Why: nothing is traced, and the run continues without traces
    Fix: use weave or mlflow, from 0.8.0 on also trackio, or null
    """
    known = (None, "weave", "mlflow", *(["trackio"] if run.since("0.8.0") else []))
    return one_of(f"{ROLLOUT}.trace.backend", known)(run)


@TOPIC.problem(
    f"{MODEL}.fused_kernel_options.impl_backend",
    fails=Fails.SILENT,
    source="models/transformers/monkey_patch.py:246 at 0.9.1",
    severity=WARNING,
)
def fused_kernels_backend(run: RunConfig) -> str | None:
    """the backend of the fused kernels is unknown to verl

    Why: verl only prints a line, and the model runs without fused kernels
    Fix: use torch or triton
    """
    known = ("torch", "triton", *(["liger"] if run.since("0.9.1") else []))
    path = f"{MODEL}.fused_kernel_options.impl_backend"
    return one_of(path, known)(run) if run.on(f"{MODEL}.use_fused_kernels") else None


@TOPIC.problem(
    _STALE,
    fails=Fails.AT_SETUP,
    source="trainer/ppo/v1/replay_buffer.py:175 at 0.9.1",
    since="0.9.1",
    logs="Invalid max off policy strategy",
)
def off_policy_strategy(run: RunConfig) -> str | None:
    """max_off_policy_strategy is neither drop nor wait

    Why: the trainer rejects it only at startup, when the cluster is already running and billing
    Fix: use drop, the default, or wait
    """
    own = run.on("trainer.v1.sampler.custom_sampler.path")
    return one_of(_STALE, ("drop", "wait"))(run) if has_new_trainer(run) and not own else None


@TOPIC.problem(
    "trainer.use_legacy_worker_impl critic.strategy",
    fails=Fails.AT_SETUP,
    source="trainer/main_ppo.py:182 at 0.7.1",
    before="0.8.0",
)
def worker_implementation(run: RunConfig) -> Iterator[Finding]:
    """the worker implementation or the critic's strategy is unknown to this version

    Why: the trainer rejects it at startup, even without a critic, when the cluster is already running and billing
    Fix: set use_legacy_worker_impl to auto, and critic.strategy to fsdp or fsdp2
    """
    switch, critic = "trainer.use_legacy_worker_impl", "critic.strategy"
    tests = {switch: one_of(switch, ("auto", "enable", "disable")), critic: one_of(critic, ("fsdp", "fsdp2"))}
    yield from failing(run, tests)
