"""Batch sizes: what must divide what, and which token limits a sequence must fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.rules.values.checks import excludes, quoted
from grpo.rules.values.nemo_rl.run import SETUP, STEP, TOPIC, TRAINING
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import Effective

_LENGTH = "policy.max_total_sequence_length"


@TOPIC.rule(
    "rows-not-divisible",
    "B1",
    f"{GLOBAL_BATCH} {PROMPTS} {GENERATIONS}",
    title="the answers of a step are a multiple of the global batch size",
    why=STEP,
    fix="choose a train_global_batch_size that divides prompts × generations, or change these",
    source="nemo_rl/distributed/batched_data_dict.py:395 at v0.7.0",
)
def _rows(run: Effective) -> Iterator[Finding]:
    found, batch = rows(run), run.integer(GLOBAL_BATCH)
    if batch > 0 and found % batch:
        made = f"{run.integer(PROMPTS)} prompts × {run.integer(GENERATIONS)} generations = {found} answers per step"
        best = max(size for size in range(1, min(found, batch) + 1) if found % size == 0) if found > 0 else 0
        proposed = {GLOBAL_BATCH: best} if best else {}
        yield Finding(f"{made} are not a multiple of train_global_batch_size {batch}", proposed=proposed)


@TOPIC.rule(
    "size-not-positive",
    "B1",
    f"{GLOBAL_BATCH} {MICRO_BATCH} {LOGPROB_BATCH} {PROMPTS} {GENERATIONS}",
    title="batch sizes are 1 or more",
    why=STEP,
    fix="write a whole number of 1 or more",
    source="nemo_rl/distributed/batched_data_dict.py:395 at v0.7.0",
)
def _positive(run: Effective) -> Iterator[Finding]:
    for path in (GLOBAL_BATCH, MICRO_BATCH, LOGPROB_BATCH, PROMPTS, GENERATIONS):
        value = run.at(path, 1)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 1:
            yield Finding(f"{path} is {value}, expected 1 or more", keys=[path])


@TOPIC.rule(
    "batch-not-divisible-by-data-parallel",
    "B2",
    f"{GLOBAL_BATCH} {NODES}",
    title="the global batch size is a multiple of the data parallel size",
    why=STEP,
    fix="choose a train_global_batch_size that is a multiple of the data parallel size",
    source="nemo_rl/distributed/batched_data_dict.py:399 at v0.7.0",
)
def _batch_shards(run: Effective) -> str | None:
    batch, shards = run.integer(GLOBAL_BATCH), data_parallel(run)
    wrong = f"train_global_batch_size {batch} is not a multiple of the data parallel size: {split(run)}"
    return wrong if batch % shards else None


@TOPIC.rule(
    "rows-not-divisible-by-data-parallel",
    "B2 B8",
    f"{PROMPTS} {GENERATIONS} {NODES}",
    title="the answers of a step are a multiple of the data parallel size",
    why=STEP,
    fix="choose prompts × generations as a multiple of the data parallel size",
    source="nemo_rl/distributed/batched_data_dict.py:399 at v0.7.0",
)
def _row_shards(run: Effective) -> str | None:
    found, shards = rows(run), data_parallel(run)
    wrong = f"{found} answers per step are not a multiple of the data parallel size: {split(run)}"
    return wrong if found % shards else None


def _computes_logprobs(run: Effective) -> bool:
    """Say whether log probabilities are computed before the update: v0.7.0 skips those that the loss does not need."""
    if not run.since("v0.7.0") or not run.on("loss_fn.force_on_policy_ratio"):
        return True
    has_reference = run.number("loss_fn.reference_policy_kl_penalty") > 0
    return has_reference or run.at("grpo.seq_logprob_error_threshold") is not None


@TOPIC.rule(
    "share-not-divisible-by-micro-batch",
    "B3",
    f"{MICRO_BATCH} {LOGPROB_BATCH}",
    title="each data parallel rank's share of a batch is a multiple of the micro batch size",
    why=STEP,
    fix="choose a micro batch that divides the share, or turn on sequence packing or dynamic batching",
    source="nemo_rl/distributed/batched_data_dict.py:831 at v0.7.0",
)
def _shares(run: Effective) -> Iterator[Finding]:
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


@TOPIC.rule(
    "micro-batches-differ",
    "K10",
    f"{LOGPROB_BATCH} {MICRO_BATCH}",
    title="from TP 4 on, training and log probabilities have the same micro batch size",
    why=SETUP,
    fix="set logprob_batch_size to train_micro_batch_size, or loss_fn.force_on_policy_ratio to true",
    source="nemo_rl/models/policy/lm_policy.py:184 at v0.7.0",
    since="v0.6.0",
)
def _accuracy(run: Effective) -> Iterator[Finding]:
    if not needs_equal_micro_batches(run):
        return
    size, train, logprob = tensor_parallel(run), run.integer(MICRO_BATCH), run.integer(LOGPROB_BATCH)
    if train != logprob:
        what = f"train_micro_batch_size is {train} and logprob_batch_size {logprob}, with tensor parallel size {size}"
        yield Finding(what, proposed={LOGPROB_BATCH: train})


@TOPIC.rule(
    "batch-multiplier",
    "B4",
    "grpo.batch_multiplier grpo.use_dynamic_sampling",
    title="batch_multiplier is 1 without dynamic sampling",
    why=SETUP,
    fix="set grpo.batch_multiplier to 1, or grpo.use_dynamic_sampling to true",
    source="nemo_rl/algorithms/grpo.py:343 at v0.7.0",
)
def _multiplier(run: Effective) -> str | None:
    if run.on("grpo.use_dynamic_sampling") or run.number("grpo.batch_multiplier") == 1:
        return None
    return f"grpo.batch_multiplier is {run.number('grpo.batch_multiplier')}, and use_dynamic_sampling is off"


@TOPIC.rule(
    "dynamic-sampling-batches",
    "B5",
    "grpo.dynamic_sampling_max_gen_batches grpo.use_dynamic_sampling",
    title="dynamic sampling may generate at least one batch",
    why=TRAINING,
    fix="set grpo.dynamic_sampling_max_gen_batches to 1 or more",
    source="nemo_rl/algorithms/grpo.py:1355 at v0.7.0",
)
def _sampling(run: Effective) -> str | None:
    if run.on("grpo.use_dynamic_sampling") and run.integer("grpo.dynamic_sampling_max_gen_batches") <= 0:
        most = run.integer("grpo.dynamic_sampling_max_gen_batches")
        return f"use_dynamic_sampling is on with grpo.dynamic_sampling_max_gen_batches {most}"
    return None


@TOPIC.rule(
    "prompts-not-divisible-by-loader",
    "B6",
    f"data.num_prompts_per_dataloader {PROMPTS}",
    title="the data loaders share the prompts of a step evenly",
    why=SETUP,
    fix="choose a num_prompts_per_dataloader that divides num_prompts_per_step × batch_multiplier",
    source="nemo_rl/algorithms/grpo.py:349 at v0.7.0",
    since="v0.6.0",
)
def _loaders(run: Effective) -> str | None:
    if not run.on("data.use_multiple_dataloader"):
        return None
    each, prompts = run.integer("data.num_prompts_per_dataloader"), run.integer(PROMPTS)
    if run.on("grpo.use_dynamic_sampling"):
        factor = run.number("grpo.batch_multiplier")
        each, prompts = int(each * factor), int(prompts * factor)
    if each < 1 or prompts % each:
        return f"{prompts} prompts per step are not a multiple of num_prompts_per_dataloader {each}"
    return None


@TOPIC.rule(
    "on-policy-batch",
    "B7",
    f"{GLOBAL_BATCH} loss_fn.force_on_policy_ratio",
    title="force_on_policy_ratio takes one update per step",
    why=SETUP,
    fix="set train_global_batch_size to prompts × generations, or turn force_on_policy_ratio off",
    source="nemo_rl/algorithms/grpo.py:430 at v0.7.0",
    since="v0.5.0",
)
def _on_policy(run: Effective) -> Iterator[Finding]:
    if run.on("loss_fn.force_on_policy_ratio") and rows(run) != run.integer(GLOBAL_BATCH):
        what = f"force_on_policy_ratio is on, and train_global_batch_size {run.integer(GLOBAL_BATCH)} is not the"
        yield Finding(f"{what} {rows(run)} answers of a step", proposed={GLOBAL_BATCH: rows(run)})


_both = TOPIC.rule(
    "packing-with-dynamic-batching",
    "M1",
    f"{DYNAMIC} {PACKING}",
    title="sequence packing and dynamic batching exclude each other",
    why=SETUP,
    fix="turn one of the two off",
    source="nemo_rl/models/policy/lm_policy.py:295 at v0.7.0",
)(excludes(DYNAMIC, PACKING))


@TOPIC.rule(
    "dynamic-batching-with-pipeline",
    "M2",
    f"{DYNAMIC} policy.megatron_cfg.pipeline_model_parallel_size",
    title="dynamic batching needs pipeline parallel size 1",
    why=SETUP,
    fix="set policy.megatron_cfg.pipeline_model_parallel_size to 1, or turn dynamic batching off",
    source="nemo_rl/models/policy/lm_policy.py:283 at v0.7.0",
)
def _pipeline(run: Effective) -> str | None:
    if run.on(DYNAMIC) and is_megatron(run) and pipeline_parallel(run) > 1:
        return f"dynamic batching is on with pipeline parallel size {pipeline_parallel(run)}"
    return None


def _longest(run: Effective) -> int:
    """Return the maximal length of a sequence: the limits of rollout, vLLM and, with one turn, prompt and answer."""
    lengths = [run.integer(_LENGTH)]
    if is_vllm(run):
        lengths.append(run.integer(f"{VLLM}.max_model_len"))
    if run.at("grpo.max_rollout_turns") == 1:
        lengths.append(run.integer("data.max_input_seq_length") + run.integer(f"{GENERATION}.max_new_tokens"))
    return min(lengths)


@TOPIC.rule(
    "sequence-exceeds-token-limit",
    "M3 M4",
    "policy.sequence_packing.train_mb_tokens policy.dynamic_batching.train_mb_tokens",
    title="the longest sequence fits into the tokens of a micro batch",
    why=TRAINING,
    fix="raise train_mb_tokens and logprob_mb_tokens to max_total_sequence_length, or shorten the sequences",
    source="nemo_rl/distributed/batched_data_dict.py:655 at v0.7.0",
)
def _limits(run: Effective) -> Iterator[Finding]:
    length = _longest(run)
    for switch in (PACKING, DYNAMIC):
        section = switch.removesuffix(".enabled")
        for name in ("train_mb_tokens", "logprob_mb_tokens") if run.on(switch) else ():
            limit = run.integer(f"{section}.{name}")
            if limit < length:
                what = f"a sequence may have {length} tokens, and {name} is {limit}"
                yield Finding(what, keys=[f"{section}.{name}", _LENGTH])


@TOPIC.rule(
    "packing-algorithm",
    "M5",
    "policy.sequence_packing.algorithm",
    title="the packing algorithm is one that NeMo RL has",
    why=STEP,
    fix="write modified_first_fit_decreasing, the default, or another one of the list",
    source="nemo_rl/data/packing/algorithms.py:693 at v0.7.0",
)
def _packing(run: Effective) -> str | None:
    name, known = run.at("policy.sequence_packing.algorithm"), run.catalogue.names["packingAlgorithms"]
    # The case of the letters does not matter.
    if not run.on(PACKING) or not isinstance(name, str) or name.lower() in known:
        return None
    return f"policy.sequence_packing.algorithm is {quoted(name)}, expected one of {', '.join(known)}"
