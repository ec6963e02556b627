"""What verl asks of batch sizes and GPUs, part of it only when models are loaded: sentences about one configuration.

Batch and mini batch count prompts; each has n answers. The micro batch counts sequences on one GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HEADS, KV_HEADS = 40, 8  # Qwen2.5 32B
AGENT_WORKERS = 8  # rollout.agent.num_workers, the default of every version


def violations(config: dict[str, Any]) -> list[str]:
    """Return what verl would stop at, or hang on; the names are those of the rules in its sources."""
    return [*_batches(config), *_rollout(config)]


def _batches(config: dict[str, Any]) -> Iterator[str]:
    actor, data = config["actor_rollout_ref"]["actor"], config["data"]
    n, gpus = config["actor_rollout_ref"]["rollout"]["n"], _gpus(config)
    batch, mini, micro = data["train_batch_size"], actor["ppo_mini_batch_size"], actor["ppo_micro_batch_size_per_gpu"]
    if batch * n % gpus:
        yield f"B1 (utils/config.py): {batch * n} sequences of a step do not divide by {gpus} GPUs"
    if batch < mini or batch % mini:
        yield f"B3 (workers/config/actor.py): {batch} prompts of a step are no multiple of {mini} of an update"
    share = mini * n // gpus
    if mini * n % gpus or not share or share % micro:
        yield f"B7, B8 (workers): {share} sequences a GPU and update are no multiple of the micro batch {micro}"
    if batch * n % AGENT_WORKERS:
        yield f"B9 (protocol.py): {batch * n} sequences do not divide by {AGENT_WORKERS} agent workers"


def _rollout(config: dict[str, Any]) -> Iterator[str]:
    rollout, data = config["actor_rollout_ref"]["rollout"], config["data"]
    ranks, length = rollout["tensor_model_parallel_size"], data["max_prompt_length"] + data["max_response_length"]
    if _gpus(config) % ranks or config["trainer"]["n_gpus_per_node"] % ranks:
        yield f"R3, R4 (workers): engines of {ranks} GPUs do not fill the nodes"
    if HEADS % ranks or KV_HEADS % ranks:
        yield f"R5 (vLLM): {ranks} GPUs do not divide {HEADS} heads and {KV_HEADS} of the cache"
    if rollout["max_model_len"] < length:
        yield f"R8 (workers): {length} tokens of prompt and answer do not fit into {rollout['max_model_len']}"


def _gpus(config: dict[str, Any]) -> int:
    return int(config["trainer"]["nnodes"] * config["trainer"]["n_gpus_per_node"])
