"""The stand-in for NeMo RL's VllmGeneration: plain sampling in the driver."""

from __future__ import annotations

from typing import Any

import torch
from cpu_sampling import sample
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

    def generate(self, data: Any, greedy: bool = False) -> Any:
        """Continue each prompt to its end token, or by max_new_tokens."""
        lengths, padding = data["input_lengths"], self.config["_pad_token_id"]
        found = sample(
            self.model,
            data["input_ids"],
            lengths,
            self.config["max_new_tokens"],
            0.0 if greedy else self.config["temperature"],
            self.config.get("stop_token_ids") or [],
        )
        inside = torch.arange(found.tokens.shape[1])[None] < found.end[:, None]
        return BatchedDataDict(
            {
                "output_ids": found.tokens.where(inside, padding),
                "logprobs": found.logprobs,
                "generation_lengths": found.end - lengths,
                "unpadded_sequence_lengths": found.end,
                "truncated": found.running,
            }
        )

    def generate_text(self, data: Any, greedy: bool = False) -> Any:
        """Continue texts, for an evaluation."""
        tokenizer = AutoTokenizer.from_pretrained(self.config["model_name"])
        prompts = tokenizer(data["prompts"], return_tensors="pt", padding=True, padding_side="right")
        lengths = prompts["attention_mask"].sum(1)
        found = self.generate(BatchedDataDict({"input_ids": prompts["input_ids"], "input_lengths": lengths}), greedy)
        rows = zip(found["output_ids"], lengths, found["unpadded_sequence_lengths"], strict=True)
        texts = [tokenizer.decode(row[start:end], skip_special_tokens=True) for row, start, end in rows]
        return BatchedDataDict({"texts": texts})
