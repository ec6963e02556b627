"""The stand-in for NeMo RL's VllmGeneration: plain sampling in the driver, with a whole forward pass for each token."""

from __future__ import annotations

from typing import Any

import torch
from nemo_rl.distributed.batched_data_dict import BatchedDataDict
from nemo_rl.models.generation.interfaces import GenerationInterface
from transformers import AutoModelForCausalLM, AutoTokenizer


class CpuGeneration(GenerationInterface):  # type: ignore[misc]
    """Sample with the temperature of the configuration; top-p is 1, top-k is off."""

    def __init__(self, cluster: Any, config: dict[str, Any]) -> None:
        self.config = config
        self.model = AutoModelForCausalLM.from_pretrained(config["model_name"], dtype=torch.float32).eval()

    def load(self, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of the policy."""
        self.model.load_state_dict(weights)

    def init_collective(self, *_args: Any, **_kwargs: Any) -> list[Any]:
        return []

    def prepare_for_generation(self, *_args: Any, **_kwargs: Any) -> bool:
        return True

    def finish_generation(self, *_args: Any, **_kwargs: Any) -> bool:
        return True

    def prepare_refit_info(self, state_dict_info: dict[str, Any]) -> None:
        return

    def shutdown(self) -> bool:
        return True

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def generate(self, data: Any, greedy: bool = False) -> Any:
        """Continue each prompt to its end token, or by max_new_tokens."""
        prompts, lengths = data["input_ids"], data["input_lengths"]
        room = self.config["max_new_tokens"]
        rows, width = prompts.shape
        places = torch.arange(width + room)[None]
        inside = places < lengths[:, None]
        tokens = torch.nn.functional.pad(prompts, (0, room)).where(inside, self.config["_pad_token_id"])
        logprobs = torch.zeros(tokens.shape)
        ends = torch.tensor(self.config.get("stop_token_ids") or [], dtype=torch.long)
        end, running = lengths.clone(), torch.ones(rows, dtype=torch.bool)
        for _ in range(room):
            chosen, chance = self._next(tokens[:, : int(end.max())], end, greedy)
            where = running.nonzero()[:, 0]
            tokens[where, end[where]] = chosen[where]
            logprobs[where, end[where]] = chance[where]
            end = end + running
            running = running & ~torch.isin(chosen, ends)
            if not running.any():
                break
        longest = int(end.max())
        return BatchedDataDict(
            {
                "output_ids": tokens[:, :longest],
                "logprobs": logprobs[:, :longest],
                "generation_lengths": end - lengths,
                "unpadded_sequence_lengths": end,
                "truncated": running,
            }
        )

    def _next(self, tokens: torch.Tensor, end: torch.Tensor, greedy: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the next token of each row and the logarithm of its probability."""
        mask = (torch.arange(tokens.shape[1])[None] < end[:, None]).long()
        logits = self.model(input_ids=tokens, attention_mask=mask).logits.float()
        last = logits[torch.arange(len(end)), end - 1]
        temperature = self.config["temperature"]
        logprobs = torch.log_softmax(last / temperature if temperature > 0 else last, -1)
        greedy = greedy or temperature <= 0
        chosen = logprobs.argmax(-1) if greedy else torch.multinomial(logprobs.exp(), 1)[:, 0]
        return chosen, logprobs.gather(1, chosen[:, None])[:, 0]

    def generate_text(self, data: Any, greedy: bool = False) -> Any:
        """Continue texts, for an evaluation."""
        tokenizer = AutoTokenizer.from_pretrained(self.config["model_name"])
        prompts = tokenizer(data["prompts"], return_tensors="pt", padding=True, padding_side="right")
        lengths = prompts["attention_mask"].sum(1)
        found = self.generate(BatchedDataDict({"input_ids": prompts["input_ids"], "input_lengths": lengths}), greedy)
        rows = zip(found["output_ids"], lengths, found["unpadded_sequence_lengths"], strict=True)
        texts = [tokenizer.decode(row[start:end], skip_special_tokens=True) for row, start, end in rows]
        return BatchedDataDict({"texts": texts})
