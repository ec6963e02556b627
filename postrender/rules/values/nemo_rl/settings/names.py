"""Settings with a fixed set of words, or a fixed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.rules.values.checks import one_of, quoted
from postrender.rules.values.nemo_rl.run import MEGATRON, TOPIC, WORKER, is_megatron

if TYPE_CHECKING:
    from postrender.values.config import Effective

_TEMPLATE: Final = "policy.tokenizer.chat_template"
_DTYPE: Final = f"{MEGATRON}.pipeline_dtype"


@TOPIC.rule(
    "chat-template",
    "S56",
    _TEMPLATE,
    title="a chat template is default, a .jinja file, or a template with a place for the messages",
    why="silent: NeMo RL takes any other text for the template itself, so the model never sees the question",
    fix="write default, the path of a file that ends in .jinja, or remove the key",
    source="nemo_rl/algorithms/utils.py:379 at v0.7.0",
)
def _template(run: Effective) -> str | None:
    text = run.at(_TEMPLATE)
    if not isinstance(text, str) or text.lower() == "default" or text.endswith(".jinja") or "{{" in text:
        return None
    return f"{_TEMPLATE} is {quoted(text)}, a template without {{{{ }}}}"


@TOPIC.rule(
    "pipeline-dtype",
    "S57",
    _DTYPE,
    title="the precision between pipeline stages is one that the workers know",
    why=WORKER,
    fix="write ${policy.precision}",
    source="nemo_rl/models/megatron/setup.py:785 at v0.7.0",
)
def _dtype(run: Effective) -> str | None:
    return one_of(_DTYPE, ("float32", "bfloat16", "float16"))(run) if is_megatron(run) else None
