"""Settings with a fixed set of values, or a fixed form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import one_of, quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import MEGATRON, is_megatron
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_TEMPLATE: Final = "policy.tokenizer.chat_template"
_CHATS: Final = re.compile(r"-(it|instruct|chat)(-|$)", re.IGNORECASE)
_TURN: Final = re.compile(r"<\|\w+\|>|<start_of_turn>|\[INST\]")
_DTYPE: Final = f"{MEGATRON}.pipeline_dtype"


@TOPIC.problem(_TEMPLATE, fails=Fails.SILENT, source="nemo_rl/algorithms/utils.py:379 at v0.7.0")
def chat_template(run: RunConfig) -> str | None:
    """the chat template has no placeholder for the messages

    Why: NeMo RL uses any other string as the template itself, so the model never sees the question
    Fix: use default, or the path of a file that ends in .jinja, or remove the key
    """
    text = run.at(_TEMPLATE)
    if not isinstance(text, str) or text.lower() == "default" or text.endswith(".jinja") or "{{" in text:
        return None
    return f"{_TEMPLATE} is {quoted(text)}, a template without {{{{ }}}}"


@TOPIC.problem(
    f"{_TEMPLATE} policy.model_name",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/utils.py:323 at v0.6.0",
    severity=WARNING,
    before="v0.7.0",
)
def no_chat_template(run: RunConfig) -> Iterator[Finding]:
    """a chat model gets its prompts without a chat template

    Why: null joins the texts without turn tokens, so the model continues the question or never stops
    Fix: use default, the tokenizer's template
    """
    name, prompts = str(run.at("policy.model_name")), mapping(run.value("job.prompts")).values()
    if not run.has(_TEMPLATE) or run.at(_TEMPLATE) is not None or not _CHATS.search(name):
        return
    # A prompt may have the tokens itself.
    if not any(_TURN.search(str(text)) for text in prompts):
        yield Finding(f"{_TEMPLATE} is null, and the model is {name}", proposed={_TEMPLATE: "default"})


_FP8: Final = f"{MEGATRON}.fp8_cfg"
_DISPATCHER: Final = f"{MEGATRON}.moe_token_dispatcher_type"
_WORDS: Final = (
    (_DTYPE, ("float32", "bfloat16", "float16")),
    (f"{MEGATRON}.attention_backend", ("flash", "fused", "unfused", "local", "auto", None)),
    (_DISPATCHER, ("allgather", "alltoall", "alltoall_seq", "flex")),
    (f"{MEGATRON}.moe_router_dtype", ("fp32", "fp64", None)),
)
_FP8_WORDS: Final = (
    (f"{_FP8}.fp8", ("e4m3", "hybrid")),
    (f"{_FP8}.fp8_recipe", ("tensorwise", "delayed", "mxfp8", "blockwise", "custom")),
)


@TOPIC.problem(
    " ".join(path for path, _ in (*_WORDS, *_FP8_WORDS)),
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/megatron/setup.py:785 at v0.7.0",
)
def megatron_word(run: RunConfig) -> Iterator[Finding]:
    """a setting in Megatron's section has a value that Megatron does not know

    Fix: use one of the known values
    """
    if not is_megatron(run):
        return
    for path, words in (*_WORDS, *(_FP8_WORDS if run.on(f"{_FP8}.enabled") else ())):
        what = one_of(path, words)(run)
        if what:
            yield Finding(what, keys=[path])
