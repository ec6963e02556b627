"""Compare the questions in rows with the token limit of a prompt, without a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from grpo.lint.data.row_fault import RowFault
from grpo.values.config import RunConfig
from grpo.values.reference_errors import UnknownError

_RULE: Final = "data/prompt-too-long"
_FIX: Final = "remove or shorten these rows, or raise {}"
_OF_NEMO_RL: Final = (
    "NeMo RL cuts the prompt to four tokens and leaves the row out of the loss: its answers are generated for"
    " nothing (math_hf_data_processor of nemo_rl/data/processors.py)"
)
_FILTERED: Final = "verl leaves the row out before the training (data.filter_overlong_prompts)"
_CUT: Final = (
    "verl cuts the prompt, or ends at the row where data.truncation is error: data.filter_overlong_prompts is off"
)


class Limit(NamedTuple):
    """The maximum number of tokens in a prompt, the key that sets it, and what happens to a longer prompt."""

    key: str
    tokens: int
    why: str

    def problems(self, text: str) -> Iterator[RowFault]:
        """Yield a problem for a question that cannot fit: no token of these models spans two words."""
        if len(text.split()) > self.tokens:
            what = f"the question has more words than a prompt may have tokens ({self.key}: {self.tokens:,})"
            yield RowFault(_RULE, what, (self.key,), self.why, _FIX.format(f"job.config.{self.key}"), ends=False)

    def may_be_longer(self, text: str) -> bool:
        """Return whether a question that may fit may also be too long: English has about four letters per token."""
        return len(text.split()) <= self.tokens < len(text.encode()) / 2


def limit(run: RunConfig) -> Limit | None:
    """Return the limit of a run's prompts, or None if only the running job knows it."""
    try:
        if run.framework == "verl":
            why = _FILTERED if run.on("data.filter_overlong_prompts") else _CUT
            return Limit("data.max_prompt_length", run.integer("data.max_prompt_length"), why)
        return Limit("data.max_input_seq_length", run.integer("data.max_input_seq_length"), _OF_NEMO_RL)
    except UnknownError:
        return None
