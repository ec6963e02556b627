"""The engine that generates: its memory, its limits, the words that it knows, the image that has it; LoRA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import WARNING, Finding
from postrender.rules.values.checks import one_of, quoted, within
from postrender.rules.values.verl.run import MODEL, ROLLOUT, TOPIC, WORKER, failing, validates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.rules.values.checks import Test
    from postrender.values.config import Effective

_SHARE: Final = f"{ROLLOUT}.gpu_memory_utilization"
_TOKENS: Final = f"{ROLLOUT}.max_num_batched_tokens"
_SEQUENCES: Final = f"{ROLLOUT}.max_num_seqs"
_NAME: Final = f"{ROLLOUT}.name"
_TAG: Final = "=images.training.tag"
_TARGETS: Final = f"{MODEL}.target_modules"
# What vLLM 0.11 to 0.20 accept.
_DTYPES: Final = ("auto", "half", "float16", "bfloat16", "float", "float32")
_FORMATS: Final = (
    *("auto", "hf", "dummy", "safetensors", "pt", "npcache", "mistral", "gguf", "bitsandbytes", "tensorizer"),
    *("fastsafetensors", "instanttensor", "runai_streamer", "runai_streamer_sharded", "sharded_state"),
)
_LOG_PROBS: Final = ("raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs")
# The tags of verl's images name the engine, by the beginning of the tag.
_ENGINES: Final = {"vllm": "vllm", "sgl": "sglang", "trtllm": "trtllm"}
# Modules as Megatron names them; the models of Hugging Face have none of these names.
_OF_MEGATRON: Final = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")


@TOPIC.rule(
    "memory-share",
    "E1",
    _SHARE,
    title="the engine's share of the GPU memory is between 0 and 1",
    why=WORKER,
    fix="write a share such as 0.6, not percent: weights, gradients and optimizer need the rest",
    source="workers/rollout/vllm_rollout/vllm_async_server.py:317 at 0.7.1",
)
def _share(run: Effective) -> str | None:
    return within(_SHARE, above=0, below=1)(run)


@TOPIC.rule(
    "engine-limits",
    "E2",
    f"{_SEQUENCES} {_TOKENS}",
    title="vLLM may take at least one sequence at a time, and a token of each",
    why=WORKER,
    fix="set max_num_batched_tokens to max_num_seqs or more, and both to 1 or more",
    source="workers/rollout/vllm_rollout/vllm_async_server.py:310 at 0.7.1",
)
def _limits(run: Effective) -> Iterator[Finding]:
    if run.at(_NAME) != "vllm":
        return
    few = list(failing(run, {path: within(path, least=1) for path in (_SEQUENCES, _TOKENS)}))
    yield from few
    if not few and run.integer(_TOKENS) < run.integer(_SEQUENCES):
        what = f"max_num_batched_tokens {run.integer(_TOKENS)} is less than max_num_seqs {run.integer(_SEQUENCES)}"
        yield Finding(what, keys=[_TOKENS, _SEQUENCES])


def _sampling(section: str) -> dict[str, Test]:
    return {
        f"{section}.temperature": within(f"{section}.temperature", least=0),
        f"{section}.top_p": within(f"{section}.top_p", above=0, most=1),
        f"{section}.top_k": within(f"{section}.top_k", least=-1),
        f"{section}.repetition_penalty": within(f"{section}.repetition_penalty", above=0),
    }


@TOPIC.rule(
    "sampling-limits",
    "E3",
    f"{ROLLOUT}.temperature {ROLLOUT}.top_p {ROLLOUT}.top_k",
    title="temperature, top_p and top_k are in the engine's range",
    why="the run fails at the first generation, after the model is loaded on all GPUs",
    fix="write temperature 1.0, top_p 1.0 and top_k -1, the defaults",
    source="experimental/agent_loop/agent_loop.py:477 at 0.7.1",
)
def _samples(run: Effective) -> Iterator[Finding]:
    yield from failing(run, _sampling(ROLLOUT))
    if validates(run):
        yield from failing(run, _sampling(f"{ROLLOUT}.val_kwargs"))


@TOPIC.rule(
    "engine-words",
    "E4",
    f"{ROLLOUT}.dtype {ROLLOUT}.load_format {ROLLOUT}.quantization {ROLLOUT}.logprobs_mode",
    title="data type, load format, quantization and scheduling are words that vLLM knows",
    why=WORKER,
    fix="write dtype bfloat16 and load_format dummy, the defaults; remove the others",
    source="workers/rollout/vllm_rollout/vllm_async_server.py:303 at 0.7.1",
)
def _words(run: Effective) -> Iterator[Finding]:
    if run.at(_NAME) != "vllm":
        return
    allowed: dict[str, tuple[str | None, ...]] = {"dtype": _DTYPES, "load_format": _FORMATS}
    if run.since("0.7.1"):
        allowed["quantization"] = (None, "fp8", "torchao")
        allowed["logprobs_mode"] = (None, *_LOG_PROBS)
        allowed["scheduling_policy"] = (None, "fcfs", "priority")
    yield from failing(run, {f"{ROLLOUT}.{key}": one_of(f"{ROLLOUT}.{key}", words) for key, words in allowed.items()})


@TOPIC.rule(
    "engine-not-in-image",
    "E5",
    f"{_NAME} {_TAG}",
    title="the image has the engine that generates",
    why=WORKER,
    fix="write the engine of the image, or an image of that engine: the tag begins with vllm, sgl or trtllm",
    source="workers/rollout/replica.py:297 at 0.7.1",
)
def _image(run: Effective) -> str | None:
    repository, tag = run.value("images.training.repository"), str(run.value("images.training.tag"))
    has = next((engine for start, engine in _ENGINES.items() if tag.startswith(start)), None)
    name = run.at(_NAME)
    wrong = has and str(repository).endswith("verlai/verl") and name in _ENGINES.values() and name != has
    return f"rollout.name is {quoted(name)}, and the image {tag} has {has}" if wrong else None


@TOPIC.rule(
    "lora-section-unread",
    "E6",
    f"{MODEL}.lora.rank {MODEL}.lora_rank",
    title="LoRA is set where the FSDP workers read it",
    why="silent: the section lora is for Megatron; FSDP trains all weights, and needs the memory for them",
    fix="write model.lora_rank, model.lora_alpha and model.target_modules",
    source="workers/engine/fsdp/transformer_impl.py:134 at 0.7.1",
    severity=WARNING,
    since="0.7.1",
)
def _lora(run: Effective) -> str | None:
    path = f"{MODEL}.lora.rank"
    if not run.given_has(path) or run.number(path) <= 0 or run.number(f"{MODEL}.lora_rank") > 0:
        return None
    return f"model.lora.rank is {quoted(run.at(path))}, and model.lora_rank is 0"


@TOPIC.rule(
    "lora-targets",
    "E7",
    _TARGETS,
    title="LoRA's target modules are modules of the model",
    why=WORKER,
    fix="write all-linear, or a list such as [q_proj, k_proj, v_proj, o_proj]",
    source="workers/engine/fsdp/transformer_impl.py:295 at 0.7.1",
)
def _targets(run: Effective) -> str | None:
    if run.number(f"{MODEL}.lora_rank") <= 0:
        return None
    given = run.at(_TARGETS)
    names = given if isinstance(given, list) else [given]
    if not names or (isinstance(given, str) and given.replace("_", "-").lower() == "all-linear" != given):
        return f"model.target_modules is {quoted(given)}, expected all-linear or names of modules"
    # One of them is enough for PEFT.
    wrong = all(name in _OF_MEGATRON for name in names)
    return f"model.target_modules is {quoted(given)}, which are Megatron's modules" if wrong else None
