"""Generation: the engine, its number of GPUs, lengths, sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import one_of, quoted, within
from grpo.problems.frameworks.verl import TOPIC, failing
from grpo.values.frameworks.verl import MODEL, NODES, ROLLOUT, gpus, model_of
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_TP = f"{ROLLOUT}.tensor_model_parallel_size"
_DP = f"{ROLLOUT}.data_parallel_size"
_PP = f"{ROLLOUT}.pipeline_model_parallel_size"
_LENGTH = f"{ROLLOUT}.max_model_len"
_APART = f"{ROLLOUT}.disaggregation"
_BACKENDS = ("nixl", "mooncake", "ascend", "mori", "fake")
_PROTOCOLS = ("nvlink", "local", "rdma", "tcp")
_LAST_PORT = 65535


@TOPIC.problem(f"{ROLLOUT}.name {ROLLOUT}.mode", fails=Fails.AT_LOADING, source="workers/rollout/base.py:106 at 0.9.1")
def rollout_name(run: RunConfig) -> str | None:
    """the rollout engine is missing, or this version does not have it in this mode

    Fix: set name: vllm and mode: async; only 0.6.1 has the mode sync
    """
    name, mode = run.at(f"{ROLLOUT}.name"), run.at(f"{ROLLOUT}.mode")
    if name in (None, "???"):
        return "rollout.name is not given"
    known = run.catalogue.names["rollouts"]
    if f"{name}/{mode}" in known:
        return None
    words = ", ".join(word.replace("/", " and ") for word in known)
    return f"rollout.name is {quoted(name)} and mode {quoted(mode)}, expected one of {words}"


@TOPIC.problem(
    f"{_TP} {_DP} {NODES}",
    fails=Fails.AT_LOADING,
    source="workers/rollout/replica.py:114 at 0.9.1",
    logs="must be divisible by gpus_per_node",
)
def rollout_gpus_not_divisible(run: RunConfig) -> str | None:
    """the rollout engines do not fit evenly into all GPUs, or into those of a node

    Fix: choose a tensor_model_parallel_size that divides the GPUs of a node
    """
    tensor, data, stages = (run.integer(path) for path in (_TP, _DP, _PP))
    size = tensor * data * stages
    parts = f"rollout's TP {tensor} × DP {data} × PP {stages} = {size}"
    if size < 1 or gpus(run) % size:
        return f"{gpus(run)} GPUs are not a multiple of {parts}"
    if size <= run.gpus or run.at(f"{ROLLOUT}.mode") == "sync":
        return None
    if size % run.gpus:
        return f"{parts} is more than a node's {run.gpus} GPUs and not a multiple of them"
    apart = data > 1 and run.gpus % tensor
    return f"a node's {run.gpus} GPUs are not a multiple of rollout's TP {tensor}" if apart else None


@TOPIC.problem(
    _PP,
    fails=Fails.AT_LOADING,
    source="workers/config/rollout.py:319 at 0.9.1",
    logs="moe_tensor_parallel_size * expert_parallel_size must equal tensor_model_parallel",
)
def rollout_stages(run: RunConfig) -> str | None:
    """rollout has more than one pipeline stage

    Fix: set pipeline_model_parallel_size to 1, and raise tensor_model_parallel_size
    """
    return within(_PP, most=1)(run)


@TOPIC.problem(
    f"{ROLLOUT}.expert_parallel_size {_TP} {_DP}",
    fails=Fails.AT_LOADING,
    source="workers/config/rollout.py:294 at 0.9.1",
    logs="expert_parallel_size must be equal to tensor_model_parallel_size * data_parallel",
)
def rollout_experts(run: RunConfig) -> Iterator[Finding]:
    """rollout's expert parallel size is neither 1 nor the number of GPUs per engine

    Fix: set expert_parallel_size to 1, or to TP × DP
    """
    shards = f"{ROLLOUT}.moe_tensor_parallel_size"
    if run.at(shards) is not None and run.integer(shards) > 1 and run.at(f"{ROLLOUT}.name") != "trtllm":
        yield Finding(f"{shards} is {run.integer(shards)}, which only trtllm takes", keys=[shards], fix="remove it")
    experts, size = run.integer(f"{ROLLOUT}.expert_parallel_size"), run.integer(_TP) * run.integer(_DP)
    wrong = experts > 1 and experts != size and run.at(f"{ROLLOUT}.name") != "trtllm"
    if wrong:
        yield Finding(f"rollout.expert_parallel_size is {experts}, and TP × DP is {size}")


@TOPIC.problem(
    f"{_APART}.enabled",
    fails=Fails.AT_LOADING,
    source="workers/config/disaggregation.py:36 at 0.8.0",
    since="0.8.0",
)
def disaggregation(run: RunConfig) -> Iterator[Finding]:
    """the settings for prefill and decoding on separate GPUs do not fit this version

    Fix: remove rollout.disaggregation, or use numbers of 1 or more and transfer_backend nixl
    """
    if not run.on(f"{_APART}.enabled"):
        return
    if run.at(f"{ROLLOUT}.name") == "vllm" and not run.since("0.9.1"):
        yield Finding(f"rollout.disaggregation is on, and verl {run.version} has it only with sglang")
        return
    port, backend = f"{_APART}.bootstrap_port", f"{_APART}.transfer_backend"
    tests = {
        f"{_APART}.{kind}_replicas": within(f"{_APART}.{kind}_replicas", least=1) for kind in ("prefill", "decode")
    }
    tests[backend] = one_of(backend, _BACKENDS)
    if run.at(port) is not None:
        tests[port] = within(port, least=1, most=_LAST_PORT)
    if run.at(backend) == "mooncake" and run.since("0.9.1"):
        tests[f"{_APART}.mooncake_protocol"] = one_of(f"{_APART}.mooncake_protocol", _PROTOCOLS)
    yield from failing(run, tests)


@TOPIC.problem(
    f"{ROLLOUT}.max_num_batched_tokens {_LENGTH}",
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_rollout_spmd.py:197 at 0.6.1",
    before="0.7.1",
    logs="is smaller than max_model_len",
)
def chunked_prefill_budget(run: RunConfig) -> str | None:
    """max_num_batched_tokens is less than one complete sequence

    Fix: raise max_num_batched_tokens to max_model_len, or set enable_chunked_prefill to false
    """
    if (run.at(f"{ROLLOUT}.name"), run.at(f"{ROLLOUT}.mode")) != ("vllm", "sync"):
        return None
    length = run.integer(_LENGTH) if run.on(_LENGTH) else _longest(run)
    budget = run.integer(f"{ROLLOUT}.max_num_batched_tokens")
    few = run.on(f"{ROLLOUT}.enable_chunked_prefill") and budget < length
    return f"rollout.max_num_batched_tokens is {budget}, and a sequence has up to {length} tokens" if few else None


def _longest(run: RunConfig) -> int:
    return run.integer(f"{ROLLOUT}.prompt_length") + run.integer(f"{ROLLOUT}.response_length")


@TOPIC.problem(
    f"{_LENGTH} data.max_prompt_length",
    fails=Fails.LATER,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:475 at 0.8.0",
    since="0.7.1",
)
def no_room_for_an_answer(run: RunConfig) -> Iterator[Finding]:
    """the longest prompt leaves no room for an answer in the engine's sequences

    Why: the run fails at the first prompt of the maximum length, which may come hours into training
    Fix: set max_model_len to max_prompt_length + max_response_length
    """
    length, what = _sequence(run)
    prompt = run.integer(f"{ROLLOUT}.prompt_length")
    if _has_no_room(run, length):
        yield Finding(f"{what}, and prompts have up to {prompt} tokens", fix=_shorter(run))


def _has_no_room(run: RunConfig, length: int) -> bool:
    """Return whether the longest prompt does not fit; from 0.8.0 on, a token must be left for the answer."""
    return length < run.integer(f"{ROLLOUT}.prompt_length") + run.since("0.8.0")


def _sequence(run: RunConfig) -> tuple[int, str]:
    """Return the engine's sequence length in tokens, and where it is set: by default in the model."""
    if run.at(_LENGTH) is not None:
        return run.integer(_LENGTH), f"rollout.max_model_len is {run.integer(_LENGTH)}"
    model = model_of(run)
    most = model.number("max_position_embeddings")
    return most, f"rollout.max_model_len is null, which is {model.name}'s {most}"


@TOPIC.problem(
    f"{_LENGTH} data.max_response_length",
    fails=Fails.SILENT,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:593 at 0.9.1",
    severity=WARNING,
    since="0.7.1",
)
def answers_cut_by_engine(run: RunConfig) -> Iterator[Finding]:
    """prompt and response together are longer than the engine's sequences

    Why: after a long prompt, the engine cuts the answer before max_response_length, and the answer earns no reward
    Fix: set max_model_len to max_prompt_length + max_response_length
    """
    length, what = _sequence(run)
    if _has_no_room(run, length) or length >= _longest(run):
        return
    yield Finding(f"{what}, and prompt and response have up to {_longest(run)} tokens", fix=_shorter(run))


def _shorter(run: RunConfig) -> str:
    """Return how to fit the lengths if prompt and response exceed the model's maximum; otherwise an empty text."""
    try:
        most = model_of(run).number("max_position_embeddings")
    except UnknownError:
        return ""
    prompt = run.integer(f"{ROLLOUT}.prompt_length")
    if _longest(run) <= most:
        return ""
    if prompt >= most:
        return f"lower data.max_prompt_length and data.max_response_length: the model has {most} positions"
    return f"lower data.max_response_length to {most - prompt} or less: the model has {most} positions"


@TOPIC.problem(
    f"{ROLLOUT}.temperature {ROLLOUT}.val_kwargs.do_sample",
    fails=Fails.AT_SETUP,
    source="utils/config.py:201 at 0.9.1",
    logs="validation gen temperature should be greater than 0 when enabling do_sample",
)
def validation_temperature(run: RunConfig) -> str | None:
    """validation samples its answers, but rollout.temperature is not above 0

    Fix: set rollout.temperature above 0, or val_kwargs.do_sample to false
    """
    warm = run.number(f"{ROLLOUT}.temperature")
    cold = run.on(f"{ROLLOUT}.val_kwargs.do_sample") and warm <= 0
    return f"val_kwargs.do_sample is on, and rollout.temperature is {quoted(warm)}" if cold else None


@TOPIC.problem(f"{MODEL}.lora_rank {MODEL}.lora.rank", fails=Fails.AT_SETUP, source="utils/config.py:215 at 0.9.1")
def lora_rank(run: RunConfig) -> str | None:
    """the LoRA rank is above 512, the maximum that vLLM loads

    Fix: choose a rank of 512 or less
    """
    if run.at(f"{ROLLOUT}.name") != "vllm" or (run.since("0.7.1") and run.on(f"{MODEL}.lora.merge")):
        return None
    newer = run.since("0.7.1") and run.has(f"{MODEL}.lora.rank") and run.number(f"{MODEL}.lora.rank") > 0
    return within(f"{MODEL}.lora{'.' if newer else '_'}rank", most=512)(run)


@TOPIC.problem(
    f"data.return_raw_chat {ROLLOUT}.mode",
    fails=Fails.AT_FIRST_STEP,
    source="experimental/agent_loop/single_turn_agent_loop.py:38 at 0.6.1",
    before="0.7.1",
)
def asynchronous_without_chat(run: RunConfig) -> str | None:
    """rollout is asynchronous, but data.return_raw_chat is off

    Why: the run fails at the first generation, after the model is loaded on all GPUs
    Fix: set data.return_raw_chat to true, the default from 0.7.0 on
    """
    silent = run.at(f"{ROLLOUT}.mode") == "async" and not run.on("data.return_raw_chat")
    return "rollout.mode is async, and data.return_raw_chat is off" if silent else None
