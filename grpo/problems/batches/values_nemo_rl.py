"""Batch sizes: which must divide which, and which token limits a sequence must fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import excludes, quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import (
    DYNAMIC,
    GENERATION,
    GENERATIONS,
    GLOBAL_BATCH,
    LOGPROB_BATCH,
    MICRO_BATCH,
    NODES,
    PACKING,
    PROMPTS,
    VLLM,
    data_parallel,
    is_megatron,
    is_vllm,
    needs_equal_micro_batches,
    pipeline_parallel,
    rows,
    split,
    tensor_parallel,
)
from postrender.finding import Finding
from postrender.problem import Fails, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_LENGTH = "policy.max_total_sequence_length"


@TOPIC.problem(
    f"{GLOBAL_BATCH} {PROMPTS} {GENERATIONS}",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/distributed/batched_data_dict.py:395 at v0.7.0",
    logs="is not a multiple of batch_size",
)
def rows_not_divisible(run: RunConfig) -> Iterator[Finding]:
    """the answers of a step are not a multiple of train_global_batch_size

    Fix: choose a train_global_batch_size that divides prompts × generations, or change those
    """
    found, batch = rows(run), run.integer(GLOBAL_BATCH)
    if batch > 0 and found % batch:
        made = f"{run.integer(PROMPTS)} prompts × {run.integer(GENERATIONS)} generations = {found} answers per step"
        best = max(size for size in range(1, min(found, batch) + 1) if found % size == 0) if found > 0 else 0
        proposed = {GLOBAL_BATCH: best} if best else {}
        yield Finding(f"{made} are not a multiple of train_global_batch_size {batch}", proposed=proposed)


@TOPIC.problem(
    f"{GLOBAL_BATCH} {MICRO_BATCH} {LOGPROB_BATCH} {PROMPTS} {GENERATIONS}",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/distributed/batched_data_dict.py:395 at v0.7.0",
)
def size_not_positive(run: RunConfig) -> Iterator[Finding]:
    """a batch size is below 1

    Fix: set it to a whole number of 1 or more
    """
    for path in (GLOBAL_BATCH, MICRO_BATCH, LOGPROB_BATCH, PROMPTS, GENERATIONS):
        value = run.at(path, 1)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 1:
            yield Finding(f"{path} is {value}, expected 1 or more", keys=[path])


@TOPIC.problem(
    f"{GLOBAL_BATCH} {NODES}",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/distributed/batched_data_dict.py:399 at v0.7.0",
    logs="is not a multiple of shards",
)
def batch_not_divisible_by_data_parallel(run: RunConfig) -> str | None:
    """the global batch size is not a multiple of the data parallel size

    Fix: choose a train_global_batch_size that is a multiple of the data parallel size
    """
    batch, shards = run.integer(GLOBAL_BATCH), data_parallel(run)
    wrong = f"train_global_batch_size {batch} is not a multiple of the data parallel size: {split(run)}"
    return wrong if batch % shards else None


@TOPIC.problem(
    f"{PROMPTS} {GENERATIONS} {NODES}",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/distributed/batched_data_dict.py:399 at v0.7.0",
    logs="is not a multiple of shards",
)
def rows_not_divisible_by_data_parallel(run: RunConfig) -> str | None:
    """the answers of a step are not a multiple of the data parallel size

    Fix: choose prompts × generations as a multiple of the data parallel size
    """
    found, shards = rows(run), data_parallel(run)
    wrong = f"{found} answers per step are not a multiple of the data parallel size: {split(run)}"
    return wrong if found % shards else None


def _computes_logprobs(run: RunConfig) -> bool:
    """Return whether log probabilities are computed before the update: v0.7.0 skips those the loss does not need."""
    if not run.since("v0.7.0") or not run.on("loss_fn.force_on_policy_ratio"):
        return True
    has_reference = run.number("loss_fn.reference_policy_kl_penalty") > 0
    return has_reference or run.at("grpo.seq_logprob_error_threshold") is not None


@TOPIC.problem(
    f"{MICRO_BATCH} {LOGPROB_BATCH}",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/distributed/batched_data_dict.py:831 at v0.7.0",
    logs="is not a multiple of the provided microbatch size",
)
def share_not_divisible_by_micro_batch(run: RunConfig) -> Iterator[Finding]:
    """a data parallel rank's share of a batch is not a multiple of the micro batch size

    Fix: choose a micro batch that divides the share, or turn on sequence packing or dynamic batching
    """
    if run.on(PACKING) or run.on(DYNAMIC):
        return
    shards = data_parallel(run)
    shares = [(MICRO_BATCH, run.integer(GLOBAL_BATCH), "train_global_batch_size")]
    shares += [(LOGPROB_BATCH, rows(run), "the answers of a step")] if _computes_logprobs(run) else []
    for path, total, name in shares:
        size = run.integer(path)
        if size > 0 and total % shards == 0 and total // shards % size:
            share = f"{name} {total} / data parallel size {shards} = {total // shards}"
            yield Finding(f"{share} is not a multiple of {path.rpartition('.')[2]} {size}", keys=[path])


@TOPIC.problem(
    f"{LOGPROB_BATCH} {MICRO_BATCH}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:184 at v0.7.0",
    since="v0.6.0",
)
def micro_batches_differ(run: RunConfig) -> Iterator[Finding]:
    """training and log probabilities have different micro batch sizes with TP 4 or more

    Fix: set logprob_batch_size to train_micro_batch_size, or loss_fn.force_on_policy_ratio to true
    """
    if not needs_equal_micro_batches(run):
        return
    size, train, logprob = tensor_parallel(run), run.integer(MICRO_BATCH), run.integer(LOGPROB_BATCH)
    if train != logprob:
        what = f"train_micro_batch_size is {train} and logprob_batch_size {logprob}, with tensor parallel size {size}"
        yield Finding(what, proposed={LOGPROB_BATCH: train})


@TOPIC.problem(
    "grpo.batch_multiplier grpo.use_dynamic_sampling",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:343 at v0.7.0",
    logs="batch_multiplier>1 can only be used if use_dynamic_sampling=True",
)
def batch_multiplier(run: RunConfig) -> str | None:
    """batch_multiplier is not 1, but dynamic sampling is off

    Fix: set grpo.batch_multiplier to 1, or grpo.use_dynamic_sampling to true
    """
    if run.on("grpo.use_dynamic_sampling") or run.number("grpo.batch_multiplier") == 1:
        return None
    return f"grpo.batch_multiplier is {run.number('grpo.batch_multiplier')}, and use_dynamic_sampling is off"


@TOPIC.problem(
    "grpo.dynamic_sampling_max_gen_batches grpo.use_dynamic_sampling",
    fails=Fails.LATER,
    source="nemo_rl/algorithms/grpo.py:1355 at v0.7.0",
    logs="When using grpo.use_dynamic_sampling, grpo.dynamic_sampling_max_gen_batches must",
)
def dynamic_sampling_batches(run: RunConfig) -> str | None:
    """the limit for dynamic sampling is below one batch

    Fix: set grpo.dynamic_sampling_max_gen_batches to 1 or more
    """
    if run.on("grpo.use_dynamic_sampling") and run.integer("grpo.dynamic_sampling_max_gen_batches") <= 0:
        most = run.integer("grpo.dynamic_sampling_max_gen_batches")
        return f"use_dynamic_sampling is on with grpo.dynamic_sampling_max_gen_batches {most}"
    return None


@TOPIC.problem(
    f"data.num_prompts_per_dataloader {PROMPTS}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:349 at v0.7.0",
    since="v0.6.0",
    logs="Please check the configuration of num_prompts_per_step and num_prompts_per_datal",
)
def prompts_not_divisible_by_loader(run: RunConfig) -> str | None:
    """the prompts of a step are not a multiple of num_prompts_per_dataloader

    Fix: choose a num_prompts_per_dataloader that divides num_prompts_per_step × batch_multiplier
    """
    if not run.on("data.use_multiple_dataloader"):
        return None
    each, prompts = run.integer("data.num_prompts_per_dataloader"), run.integer(PROMPTS)
    if run.on("grpo.use_dynamic_sampling"):
        factor = run.number("grpo.batch_multiplier")
        each, prompts = int(each * factor), int(prompts * factor)
    if each < 1 or prompts % each:
        return f"{prompts} prompts per step are not a multiple of num_prompts_per_dataloader {each}"
    return None


@TOPIC.problem(
    f"{GLOBAL_BATCH} loss_fn.force_on_policy_ratio",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:430 at v0.7.0",
    since="v0.5.0",
    logs="force_on_policy_ratio requires train_global_batch_size == num_prompts_per_step *",
)
def on_policy_batch(run: RunConfig) -> Iterator[Finding]:
    """force_on_policy_ratio is on, but the global batch is not exactly a step's answers

    Fix: set train_global_batch_size to prompts × generations, or turn force_on_policy_ratio off
    """
    if run.on("loss_fn.force_on_policy_ratio") and rows(run) != run.integer(GLOBAL_BATCH):
        what = f"force_on_policy_ratio is on, and train_global_batch_size {run.integer(GLOBAL_BATCH)} is not the"
        yield Finding(f"{what} {rows(run)} answers of a step", proposed={GLOBAL_BATCH: rows(run)})


@TOPIC.problem(
    f"{DYNAMIC} {PACKING}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:295 at v0.7.0",
    logs="Dynamic Batching is exclusive of Sequence Packing",
)
def packing_with_dynamic_batching(run: RunConfig) -> Verdict:
    """sequence packing and dynamic batching are both on

    Fix: turn one of the two off
    """
    return excludes(DYNAMIC, PACKING)(run)


@TOPIC.problem(
    f"{DYNAMIC} policy.megatron_cfg.pipeline_model_parallel_size",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:283 at v0.7.0",
    logs="Dynamic batching is only supported for single pipeline parallel stage",
)
def dynamic_batching_with_pipeline(run: RunConfig) -> str | None:
    """dynamic batching is on with pipeline parallelism

    Fix: set policy.megatron_cfg.pipeline_model_parallel_size to 1, or turn dynamic batching off
    """
    if run.on(DYNAMIC) and is_megatron(run) and pipeline_parallel(run) > 1:
        return f"dynamic batching is on with pipeline parallel size {pipeline_parallel(run)}"
    return None


def _longest(run: RunConfig) -> int:
    """Return the maximum sequence length: the limits of rollout, vLLM and, with one turn, prompt and answer."""
    lengths = [run.integer(_LENGTH)]
    if is_vllm(run):
        lengths.append(run.integer(f"{VLLM}.max_model_len"))
    if run.at("grpo.max_rollout_turns") == 1:
        lengths.append(run.integer("data.max_input_seq_length") + run.integer(f"{GENERATION}.max_new_tokens"))
    return min(lengths)


@TOPIC.problem(
    "policy.sequence_packing.train_mb_tokens policy.dynamic_batching.train_mb_tokens",
    fails=Fails.LATER,
    source="nemo_rl/distributed/batched_data_dict.py:655 at v0.7.0",
    logs="however max microbatch size is",
)
def sequence_exceeds_token_limit(run: RunConfig) -> Iterator[Finding]:
    """the longest sequence does not fit into the token limit of a micro batch

    Fix: raise train_mb_tokens and logprob_mb_tokens to max_total_sequence_length, or shorten the sequences
    """
    length = _longest(run)
    for switch in (PACKING, DYNAMIC):
        section = switch.removesuffix(".enabled")
        for name in ("train_mb_tokens", "logprob_mb_tokens") if run.on(switch) else ():
            limit = run.integer(f"{section}.{name}")
            if limit < length:
                what = f"a sequence may have {length} tokens, and {name} is {limit}"
                yield Finding(what, keys=[f"{section}.{name}", _LENGTH])


@TOPIC.problem(
    "policy.sequence_packing.algorithm",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/data/packing/algorithms.py:693 at v0.7.0",
    logs="Unknown packing algorithm",
)
def packing_algorithm(run: RunConfig) -> str | None:
    """the packing algorithm is unknown to NeMo RL

    Fix: use modified_first_fit_decreasing, the default, or another algorithm that grpo lint lists
    """
    name, known = run.at("policy.sequence_packing.algorithm"), run.catalogue.names["packingAlgorithms"]
    # The case of the letters does not matter.
    if not run.on(PACKING) or not isinstance(name, str) or name.lower() in known:
        return None
    return f"policy.sequence_packing.algorithm is {quoted(name)}, expected one of {', '.join(known)}"
