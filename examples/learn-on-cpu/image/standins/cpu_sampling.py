"""Plain sampling with a whole forward pass for each token: what the stand-ins for vLLM generate with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch


class Sampled(NamedTuple):
    """Rows of tokens, padded at the right, with the logarithms of their probabilities (0 for prompts and padding).

    `end` is the length of each row, and `running` whether it has not reached an end token.
    """

    tokens: torch.Tensor
    logprobs: torch.Tensor
    end: torch.Tensor
    running: torch.Tensor


@torch.no_grad()  # type: ignore[untyped-decorator]
def sample(
    model: Any, prompts: torch.Tensor, lengths: torch.Tensor, room: int, temperature: float, ends: Sequence[int]
) -> Sampled:
    """Continue each prompt to an end token, or by `room` tokens; the temperature 0 is greedy. Top-p is 1, top-k off.

    `prompts` are padded at the right; the padding is replaced and kept out of sight.
    """
    rows, width = prompts.shape
    inside = torch.arange(width + room)[None] < lengths[:, None]
    tokens = torch.nn.functional.pad(prompts, (0, room)) * inside
    logprobs = torch.zeros(tokens.shape)
    stops = torch.tensor(list(ends), dtype=torch.long)
    end, running = lengths.clone(), torch.ones(rows, dtype=torch.bool)
    for _ in range(room):
        chosen, chance = _next(model, tokens[:, : int(end.max())], end, temperature)
        where = running.nonzero()[:, 0]
        tokens[where, end[where]] = chosen[where]
        logprobs[where, end[where]] = chance[where]
        end = end + running
        running = running & ~torch.isin(chosen, stops)
        if not running.any():
            break
    longest = int(end.max())
    return Sampled(tokens[:, :longest], logprobs[:, :longest], end, running)


def _next(model: Any, tokens: torch.Tensor, end: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the next token of each row and the logarithm of its probability."""
    mask = (torch.arange(tokens.shape[1])[None] < end[:, None]).long()
    logits = model(input_ids=tokens, attention_mask=mask).logits.float()
    last = logits[torch.arange(len(end)), end - 1]
    greedy = temperature <= 0
    logprobs = torch.log_softmax(last if greedy else last / temperature, -1)
    chosen = logprobs.argmax(-1) if greedy else torch.multinomial(logprobs.exp(), 1)[:, 0]
    return chosen, logprobs.gather(1, chosen[:, None])[:, 0]
