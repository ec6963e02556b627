"""The stand-in for verl's vLLM server: an actor that samples for the agent loops, and what gives it new weights."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from typing import Any, NamedTuple

import ray
import torch
from cpu_sampling import sample
from transformers import AutoModelForCausalLM
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

# Requests of so many seconds are sampled together.
WINDOW = 0.05


class Request(NamedTuple):
    prompt: list[int]
    answer: asyncio.Future[TokenOutput]


def name_of(replica: int) -> str:
    """Return the name of the actor of a replica."""
    return f"cpu_server_{replica}"


class CpuServer:
    """Continue prompts by at most `length` tokens."""

    def __init__(self, path: str, length: int) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.length = length
        self.steps: int | None = None
        self.waiting = defaultdict[float, list[Request]](list)

    async def load(self, weights: dict[str, torch.Tensor], steps: int | None) -> None:
        """Take over the weights of the policy after so many steps."""
        # The embedding is the output layer too, and has one name here.
        lost = self.model.load_state_dict(weights, strict=False).unexpected_keys
        if lost or not weights:
            raise ValueError(f"weights that the model does not have: {', '.join(lost) or 'no weights at all'}")
        self.steps = steps

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """Continue a prompt, together with those that come in the same moment and have its temperature."""
        answer = asyncio.get_running_loop().create_future()
        temperature = float(sampling_params.get("temperature", 1.0))
        self.waiting[temperature].append(Request(list(prompt_ids), answer))
        await asyncio.sleep(WINDOW)
        if requests := self.waiting.pop(temperature, []):
            self.answer(requests, temperature)
        return await answer

    def answer(self, requests: list[Request], temperature: float) -> None:
        """Sample for some requests."""
        lengths = torch.tensor([len(one.prompt) for one in requests])
        width = int(lengths.max())
        prompts = torch.tensor([one.prompt + [0] * (width - len(one.prompt)) for one in requests])
        found = sample(self.model, prompts, lengths, self.length, temperature, [self.model.config.eos_token_id])
        for row, one in enumerate(requests):
            new = slice(len(one.prompt), int(found.end[row]))
            made = TokenOutput(
                token_ids=found.tokens[row, new].tolist(),
                log_probs=found.logprobs[row, new].tolist(),
                stop_reason="length" if found.running[row] else "completed",
            )
            made.extra_fields["global_steps"] = self.steps
            one.answer.set_result(made)

    async def nothing(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: there is no memory of a GPU to give back, and nothing to interrupt."""

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


class CpuReplica(RolloutReplica):  # type: ignore[misc]
    """One server."""

    async def launch_servers(self) -> None:
        path = getattr(self.model_config, "path", None) or self.model_config["path"]
        options = {"name": name_of(self.replica_rank), "num_cpus": 0}
        handle = ray.remote(CpuServer).options(**options).remote(path, self.config.response_length)
        self.servers, self._server_handle, self._server_address = [handle], handle, name_of(self.replica_rank)


class CpuAdapter(BaseRollout):  # type: ignore[misc]
    """Give the server the weights of the training worker; vLLM would read them from the GPU's memory."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: Any) -> None:
        whole = {name: weight.detach().clone() for name, weight in weights}
        await ray.get_actor(name_of(self.replica_rank)).load.remote(whole, global_steps)
