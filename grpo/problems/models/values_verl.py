"""What the model's config.json requires of parallel sizes and lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.verl import TOPIC
from grpo.values.frameworks.model import allows_longer, no_experts, uneven_heads
from grpo.values.frameworks.verl import ACTOR, MODEL, ROLLOUT, SEQUENCE, model_of, sequence_parallel
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_PATH: Final = f"{MODEL}.path"
_TP: Final = f"{ROLLOUT}.tensor_model_parallel_size"
_EXPERTS: Final = f"{ROLLOUT}.expert_parallel_size"
_LENGTH: Final = f"{ROLLOUT}.max_model_len"
_JUDGE: Final = "reward.reward_model"
_OLD_JUDGE: Final = "reward_model"


@TOPIC.problem(
    f"{MODEL}.custom_chat_template", fails=Fails.AT_FIRST_STEP, source="workers/config/model.py:177 at 0.9.1"
)
def chat_template_constant(run: RunConfig) -> str | None:
    """the custom chat template does not use the messages

    Why: every prompt becomes the same text, so the run fails at its first answers, or the model learns nothing
    Fix: use a Jinja template's text, with {% for message in messages %}, or null for the tokenizer's own template
    """
    text = run.at(f"{MODEL}.custom_chat_template")
    is_constant = isinstance(text, str) and "messages" not in text
    return f"model.custom_chat_template is {quoted(text)}, without messages" if is_constant else None


@TOPIC.problem(
    f"{_JUDGE}.model_path {_OLD_JUDGE}.model.path",
    fails=Fails.AT_LOADING,
    source="experimental/reward_loop/reward_model.py:71 at 0.9.1",
)
def reward_model(run: RunConfig) -> Iterator[Finding]:
    """a reward model is on, but no model is named for it

    Why: the run ends when it loads the reward model, with the cluster already running and billing
    Fix: name the reward model: OWNER/NAME on the hub, or a folder on a volume
    """
    # Until 0.9 the old section still counts; before 0.7.1 its default is a folder of verl's authors.
    keys = [f"{_JUDGE}.model_path"] if run.since("0.7.1") else []
    keys += [] if run.since("0.9.1") else [f"{_OLD_JUDGE}.model.path"]
    sections = [section for section in (_JUDGE, _OLD_JUDGE) if any(key.startswith(section) for key in keys)]
    scores = any(run.on(f"{section}.enable") for section in sections)
    if scores and not any(run.given_has(key) and run.at(key) for key in keys):
        yield Finding(f"a reward model scores the answers, and {keys[0]} is not set", keys=[*keys, *sections])


@TOPIC.problem(
    f"{SEQUENCE} {ACTOR}.fsdp_config.ulysses_sequence_parallel_size {_PATH}",
    fails=Fails.AT_LOADING,
    source="models/transformers/monkey_patch.py:343 at 0.9.1",
    logs="must be divisible by ulysses_sp_size",
)
def sequence_parallel_heads(run: RunConfig) -> str | None:
    """the sequence parallel size does not fit the model's attention heads

    Fix: choose a size that divides the attention heads, and divides the KV heads or is a multiple of them
    """
    size = sequence_parallel(run)
    # The FSDP turbo engine has its own size.
    if size <= 1 or run.at(f"{ACTOR}.strategy") == "fsdp_turbo":
        return None
    uneven = uneven_heads(model_of(run), size, repeats=True)
    return uneven and f"ulysses_sequence_parallel_size is {size}, and {uneven}"


@TOPIC.problem(
    f"{_TP} {_PATH}",
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:342 at 0.9.1",
    logs="Total number of attention heads (",
)
def rollout_heads_not_divisible(run: RunConfig) -> str | None:
    """rollout's tensor parallel size does not fit the model's attention heads

    Fix: choose a size that divides the attention heads, and divides the KV heads or is a multiple of them
    """
    size = run.integer(_TP) if run.at(f"{ROLLOUT}.name") == "vllm" else 1
    uneven = uneven_heads(model_of(run), size, repeats=True) if size > 1 else None
    return uneven and f"rollout.tensor_model_parallel_size is {size}, and {uneven}"


@TOPIC.problem(
    f"{_EXPERTS} {_PATH}",
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:402 at 0.9.1",
)
def rollout_without_experts(run: RunConfig) -> str | None:
    """rollout uses expert parallelism, but the model has no experts

    Fix: set expert_parallel_size to 1
    """
    size = run.integer(_EXPERTS) if run.at(f"{ROLLOUT}.name") == "vllm" else 1
    what = no_experts(model_of(run)) if size > 1 else None
    return what and f"rollout.expert_parallel_size is {size}, and {what}"


@TOPIC.problem(
    f"{_LENGTH} data.max_response_length data.max_prompt_length {_PATH}",
    fails=Fails.AT_LOADING,
    source="workers/rollout/vllm_rollout/vllm_async_server.py:1107 at 0.9.1",
    logs="should be less than or equal to max_position_embeddings",
)
def longer_than_model(run: RunConfig) -> Iterator[Finding]:
    """the maximum sequence length exceeds the model's position embeddings

    Fix: lower the length, or set model.override_config.max_position_embeddings if this is intended
    """
    model, keys = model_of(run), [_LENGTH, _PATH]
    if run.since("0.7.1"):
        # verl itself compares this number, and no other.
        length, most = run.integer(_LENGTH), model.number("max_position_embeddings")
        what = f"rollout.max_model_len is {length}"
    elif run.at(f"{ROLLOUT}.name") == "vllm" and not allows_longer(run):
        length = run.integer(f"{ROLLOUT}.prompt_length") + run.integer(f"{ROLLOUT}.response_length")
        what, most = f"prompt and response have up to {length} tokens", model.positions()
        keys = ["data.max_response_length", "data.max_prompt_length", _PATH]
    else:
        return
    if length > most:
        yield Finding(f"{what}, and {model.name} has {most} positions", keys=keys)
