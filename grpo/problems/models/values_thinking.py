"""Models that think before they answer, with room for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values import models
from grpo.values.config import MODEL
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import GENERATION
from postrender.finding import INFO, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
# What gets the arguments of the chat template, what replaces the template, and the length of an answer.
KWARGS: Final = {"nemo-rl": "policy.tokenizer.chat_template_kwargs", "verl": "data.apply_chat_template_kwargs"}
_TEMPLATE: Final = {"nemo-rl": "policy.tokenizer.chat_template", "verl": "actor_rollout_ref.model.custom_chat_template"}
_LENGTH: Final = {"nemo-rl": f"{GENERATION}.max_new_tokens", "verl": "data.max_response_length"}
# Qwen recommends 32,768; shorter thoughts are common with easy questions.
ENOUGH: Final = 8192


@TOPIC.problem(
    " ".join((*MODEL.values(), *KWARGS.values(), *_LENGTH.values())),
    fails=Fails.SILENT,
    source="https://huggingface.co/Qwen/Qwen3-8B",
    severity=INFO,
)
def thinking_cut(run: RunConfig) -> Iterator[Finding]:
    """the model thinks before it answers, and the answers are short

    Why: thoughts take thousands of tokens; an answer that is cut before its end has no reward
    Fix: set enable_thinking to false or true in chat_template_kwargs, or allow answers of 8192 tokens or more
    """
    name, kwargs, length = run.model, KWARGS[run.framework], _LENGTH[run.framework]
    known = models.load(name) if isinstance(name, str) and run.trains else None
    if not known or not known.get("thinks") or run.given_has(_TEMPLATE[run.framework]):
        return
    if "enable_thinking" not in mapping(run.at(kwargs)) and (most := run.integer(length)) < ENOUGH:
        what = f"{name} thinks by default, and an answer has {most} tokens at most"
        fix = f"write job.config.{kwargs}: {{enable_thinking: false}}, or raise {length} to {ENOUGH} or more"
        yield Finding(what, keys=[MODEL[run.framework], length], fix=fix)
