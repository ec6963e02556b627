"""The generation engine: its memory, its limits, the values it accepts, the image that contains it; LoRA."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import ALLOCATOR_KEYS, expands_segments, one_of, quoted, within
from grpo.problems.frameworks.verl import TOPIC, failing
from grpo.values import images
from grpo.values.derived import mapping
from grpo.values.frameworks.verl import MODEL, ROLLOUT, has_new_trainer, validates
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.checks import Test
    from grpo.values.config import RunConfig
    from postrender.types import Json

_SHARE: Final = f"{ROLLOUT}.gpu_memory_utilization"
_TOKENS: Final = f"{ROLLOUT}.max_num_batched_tokens"
_SEQUENCES: Final = f"{ROLLOUT}.max_num_seqs"
_VALIDATION: Final = f"{ROLLOUT}.val_kwargs"
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
# vLLM moved what 0.6.1 imports; the weights of 0.9.1 need a newer interface.
_NEWEST_OF_0_6, _OLDEST_OF_0_9 = (0, 11), (0, 18)
# Modules as Megatron names them; the models of Hugging Face have none of these names.
_OF_MEGATRON: Final = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")


@TOPIC.problem(_SHARE, fails=Fails.AT_LOADING, source="workers/rollout/vllm_rollout/vllm_async_server.py:340 at 0.9.1")
def memory_share(run: RunConfig) -> str | None:
    """gpu_memory_utilization is not a share between 0 and 1

    Fix: use a share such as 0.6, not a percentage: weights, gradients and optimizer need the rest
    """
    return within(_SHARE, above=0, below=1)(run)


@TOPIC.problem(
    f"{_SEQUENCES} {_TOKENS}",
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:333 at 0.9.1",
    logs="is smaller than max_model_len",
)
def engine_limits(run: RunConfig) -> Iterator[Finding]:
    """max_num_seqs or max_num_batched_tokens is too small for vLLM

    Fix: set max_num_batched_tokens to max_num_seqs or more, and both to 1 or more
    """
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


@TOPIC.problem(
    f"{ROLLOUT}.temperature {ROLLOUT}.top_p {ROLLOUT}.top_k",
    fails=Fails.AT_FIRST_STEP,
    source="experimental/agent_loop/agent_loop.py:591 at 0.9.1",
)
def sampling_limits(run: RunConfig) -> Iterator[Finding]:
    """temperature, top_p, top_k or repetition_penalty is out of the engine's range

    Why: the run fails at the first generation, after the model is loaded on all GPUs
    Fix: set temperature to 1.0, top_p to 1.0 and top_k to -1, the defaults
    """
    yield from failing(run, _sampling(ROLLOUT))
    if validates(run):
        yield from failing(run, _sampling(_VALIDATION))


@TOPIC.problem(
    f"{ROLLOUT}.dtype {ROLLOUT}.load_format {ROLLOUT}.quantization {ROLLOUT}.logprobs_mode",
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:326 at 0.9.1",
)
def engine_words(run: RunConfig) -> Iterator[Finding]:
    """dtype, load_format or another rollout setting has a value unknown to vLLM

    Fix: set dtype to bfloat16 and load_format to dummy, the defaults; remove the others
    """
    if run.at(_NAME) != "vllm":
        return
    allowed: dict[str, tuple[str | None, ...]] = {"dtype": _DTYPES, "load_format": _FORMATS}
    if run.since("0.7.1"):
        allowed["quantization"] = (None, "fp8", "torchao")
        allowed["logprobs_mode"] = (None, *_LOG_PROBS)
        allowed["scheduling_policy"] = (None, "fcfs", "priority")
    yield from failing(run, {f"{ROLLOUT}.{key}": one_of(f"{ROLLOUT}.{key}", words) for key, words in allowed.items()})


@TOPIC.problem(f"{_NAME} {_TAG}", fails=Fails.AT_LOADING, source="workers/rollout/replica.py:332 at 0.9.1")
def engine_not_in_image(run: RunConfig) -> str | None:
    """the image does not have the engine that rollout.name selects

    Fix: set the image's engine, or use that engine's image: the tag begins with vllm, sgl or trtllm
    """
    has, name = images.engine_of(*_image_of(run)), run.at(_NAME)
    wrong = has and name in images.ENGINES and name != has
    return f"rollout.name is {quoted(name)}, and the image {run.value(_TAG[1:])} has {has}" if wrong else None


def _image_of(run: RunConfig) -> tuple[Json, Json]:
    """Return the image's repository and tag."""
    return run.value("images.training.repository"), run.value(_TAG[1:])


@TOPIC.problem(_NAME, fails=Fails.SILENT, source="workers/rollout/replica.py:332 at 0.9.1", severity=WARNING)
def engine_not_supported(run: RunConfig) -> str | None:
    """rollout.name is not vllm, the only engine that these charts support

    Why: the memory estimates, checks and images in these charts assume vLLM; no other engine has been tested
    Fix: set vllm; if your image ships the other engine and you have tested it, ignore the finding
    """
    name, has = run.at(_NAME), images.engine_of(*_image_of(run))
    # Another rule refuses an engine that the image does not have.
    is_refused = has and has != name
    is_other = name in images.ENGINES and name != "vllm" and not is_refused
    return f"rollout.name is {quoted(name)}, which is not supported" if is_other and run.trains else None


@TOPIC.problem(
    f"{_TAG} =job.version",
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:38 at 0.6.1",
)
def image_of_another_version(run: RunConfig) -> str | None:
    """verl's image has a vLLM that this version of verl cannot use

    Why: workers fail when they import vLLM or send it weights, with the cluster already running and billing
    Fix: pass values/frameworks/verl-VERSION.yaml after the recipe: it has that version's image
    """
    return _vllm_of_another(run) if images.is_of_verl(run.value("images.training.repository")) else None


@TOPIC.problem(
    f"{_TAG} =job.version",
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:38 at 0.6.1",
    severity=WARNING,
)
def own_image_of_another_version(run: RunConfig) -> str | None:
    """an image built on verl's has, by its tag, a vLLM that this version of verl cannot use

    Why: workers fail when they import vLLM or send it weights, with the cluster already running and billing
    Fix: build it on this version's image (values/frameworks); if its tag is misleading, ignore the finding
    """
    repository = run.value("images.training.repository")
    is_own = images.named_after(repository) == "verl" and not images.is_of_verl(repository)
    return _vllm_of_another(run) if is_own else None


def _vllm_of_another(run: RunConfig) -> str | None:
    """Return that the image, by the start of its tag, has a vLLM that does not work with this version of verl."""
    tag = str(run.value("images.training.tag"))
    release = re.match(r"vllm(\d)(\d\d)\b", tag)
    if not release or run.at(_NAME) != "vllm":
        return None
    has = (int(release[1]), int(release[2]))
    what = f"the image {tag} has vLLM {has[0]}.{has[1]}, and verl {run.version}"
    if not run.since("0.7.1") and has > _NEWEST_OF_0_6:
        return f"{what} runs with 0.11.0 or older"
    return f"{what} needs 0.18 or newer" if run.since("0.9.1") and has < _OLDEST_OF_0_9 else None


@TOPIC.problem(
    "=job.code.packages =job.version trainer.use_v1",
    fails=Fails.AT_SETUP,
    source="trainer/ppo/v1/trainer_base.py:30 at 0.9.1",
    since="0.9.1",
)
def transfer_queue(run: RunConfig) -> str | None:
    """the 0.9 trainer needs TransferQueue, but job.code.packages lacks it

    Why: the run fails when it imports the trainer or later in it: the image has an older TransferQueue, or none
    Fix: set job.code.packages.TransferQueue to 0.1.10, or trainer.use_v1 to false
    """
    packages = mapping(run.value("job.code.packages"))
    names = {name.lower().replace("_", "").replace("-", "") for name, version in packages.items() if version}
    lacks = "verl" in names and "transferqueue" not in names
    lacks = lacks and images.is_of_verl(run.value("images.training.repository"))
    return "job.code.packages has no TransferQueue" if lacks and has_new_trainer(run) else None


@TOPIC.problem(
    f"{_VALIDATION}.n {_VALIDATION}.temperature",
    fails=Fails.COSTS,
    source="experimental/agent_loop/agent_loop.py:607 at 0.9.1",
    severity=WARNING,
)
def validation_repeats(run: RunConfig) -> str | None:
    """validation requests several answers to a prompt, but its temperature is 0

    Why: at temperature 0 all answers are the same, so the time for all but the first is wasted
    Fix: set val_kwargs.temperature to 0.6 and do_sample to true, or use one answer per prompt
    """
    count, cold = run.integer(f"{_VALIDATION}.n"), run.number(f"{_VALIDATION}.temperature") == 0
    same = count > 1 and cold and validates(run)
    return f"val_kwargs.n is {count}, and val_kwargs.temperature is 0" if same else None


@TOPIC.problem(
    ALLOCATOR_KEYS,
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:314 at 0.7.1",
    before="0.8.0",
)
def expandable_segments(run: RunConfig) -> Iterator[Finding]:
    """expandable segments are on, but vLLM's sleep mode does not support them

    Why: vLLM rejects them when it loads the model, with the cluster already running and billing
    Fix: remove expandable_segments:True from PYTORCH_CUDA_ALLOC_CONF: verl's actor sets it itself
    """
    key = expands_segments(run)
    if key and run.at(_NAME) == "vllm" and _sleeps(run):
        vllm = f"vLLM {'0.17.0' if run.since('0.7.1') else '0.11.0'}"
        what = f"PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True, which the sleep mode of {vllm} refuses"
        yield Finding(what, keys=[key])


def _sleeps(run: RunConfig) -> bool:
    """Return whether the engine uses its sleep mode."""
    if run.since("0.7.1"):
        return run.at(f"{ROLLOUT}.enable_sleep_mode", True) is not False
    return run.at(f"{ROLLOUT}.mode") == "async" or run.on(f"{ROLLOUT}.free_cache_engine")


@TOPIC.problem(
    f"{MODEL}.lora.rank {MODEL}.lora_rank",
    fails=Fails.SILENT,
    source="workers/engine/fsdp/transformer_impl.py:162 at 0.9.1",
    severity=WARNING,
    since="0.7.1",
)
def lora_section_unread(run: RunConfig) -> str | None:
    """model.lora.rank is set, but the FSDP workers read model.lora_rank

    Why: the section lora is for Megatron; FSDP trains all weights, and needs the memory for them
    Fix: use model.lora_rank, model.lora_alpha and model.target_modules
    """
    path = f"{MODEL}.lora.rank"
    if not run.given_has(path) or run.number(path) <= 0 or run.number(f"{MODEL}.lora_rank") > 0:
        return None
    return f"model.lora.rank is {quoted(run.at(path))}, and model.lora_rank is 0"


@TOPIC.problem(_TARGETS, fails=Fails.AT_LOADING, source="workers/engine/fsdp/transformer_impl.py:363 at 0.9.1")
def lora_targets(run: RunConfig) -> str | None:
    """LoRA's target modules are not modules of the model

    Fix: use all-linear, or a list such as [q_proj, k_proj, v_proj, o_proj]
    """
    if run.number(f"{MODEL}.lora_rank") <= 0:
        return None
    given = run.at(_TARGETS)
    names = given if isinstance(given, list) else [given]
    if not names or (isinstance(given, str) and given.replace("_", "-").lower() == "all-linear" != given):
        return f"model.target_modules is {quoted(given)}, expected all-linear or names of modules"
    # One of them is enough for PEFT.
    wrong = all(name in _OF_MEGATRON for name in names)
    return f"model.target_modules is {quoted(given)}, which are Megatron's modules" if wrong else None
