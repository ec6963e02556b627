"""The environment that nemo_rl_rewards.py registers: job.rewards as a Ray actor, with workers that score in parallel.

NeMo RL sees only the scores. Its validation accuracy is their mean, which equals the proportion of correct
responses only if all scores are 0 or 1. The log lines printed here contain that proportion.
"""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

import ray
import torch
from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES
from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn

import rewards

Case = tuple[Any, ...]
# Responses per log line. With asynchronous rollouts every response is a separate call: too many for a line each.
RESPONSES_PER_LINE = 256
# The variables of the pod that no reward needs: one that asks a server for a judgement has its own.
TOKENS = ("HF_TOKEN", "WANDB_API_KEY")


@ray.remote
class RewardWorker:
    """A process that scores responses."""

    def __init__(self) -> None:
        self.rewards = rewards.load()

    def judge(self, cases: list[Case]) -> list[tuple[Any, ...]]:
        # Plain tuples: a process that unpickles them needs none of these modules.
        return [tuple(self.rewards(*case)) for case in cases]


def case(messages: list[dict[str, Any]], info: dict[str, Any] | None) -> Case:
    """Return the ground truth, the text of all the model's turns, and the additional arguments of verl's functions."""
    if not info or "ground_truth" not in info:
        raise ValueError("the data set's rows have no ground_truth; use data processor math_hf_data_processor")
    turns = [message["content"] for message in messages if message["role"] == "assistant"]
    text = turns[0] if len(turns) == 1 else "".join(map(str, turns))
    source = info.get("data_source", os.environ.get("GRPO_DATA_SOURCE", ""))
    return info["ground_truth"], text, source, info.get("extra_info")


# Calls wait for workers, so the actor runs several at a time; a worker runs one.
@ray.remote(max_restarts=-1, max_task_retries=-1, max_concurrency=64)
class RewardsEnvironment(EnvironmentInterface):  # type: ignore[misc]  # the image's class, unknown here
    """Score finished responses; an episode is one turn."""

    def __init__(self, config: dict[str, Any]) -> None:
        runtime = {"py_executable": PY_EXECUTABLES.SYSTEM, "env_vars": dict.fromkeys(TOKENS, "")}
        count = int((config or {}).get("num_workers") or 8)
        worker: Any = RewardWorker  # the decorator has made an actor class of it
        self.workers = [worker.options(runtime_env=runtime).remote() for _ in range(count)]
        self.turn, self.lock, self.tally = itertools.count(), threading.Lock(), rewards.Tally()

    def step(self, message_log_batch: list[Any], metadata: list[Any]) -> Any:
        """Return a batch's scores; every episode ends."""
        results = self.judge([case(messages, info) for messages, info in zip(message_log_batch, metadata, strict=True)])
        self.report(results)
        scores = torch.tensor([result.score for result in results], dtype=torch.float32)
        return EnvironmentReturn(
            # NeMo RL adds it to the conversation. It must not be empty, and the loss ignores it.
            observations=[{"role": "environment", "content": "judged"} for _ in results],
            metadata=metadata,
            next_stop_strings=[None] * len(results),
            rewards=scores,
            terminateds=torch.ones_like(scores),
            answers=None,
        )

    def judge(self, cases: list[Case]) -> list[rewards.Result]:
        size = max(1, -(-len(cases) // len(self.workers)))
        chunks = [cases[start : start + size] for start in range(0, len(cases), size)]
        # The counter spreads calls with a single response over all workers.
        calls = [self.workers[next(self.turn) % len(self.workers)].judge.remote(chunk) for chunk in chunks]
        return [rewards.Result(*row) for rows in ray.get(calls) for row in rows]

    def report(self, results: list[rewards.Result]) -> None:
        with self.lock:
            self.tally.add(results)
            if len(results) > 1 or self.tally.count >= RESPONSES_PER_LINE:
                rewards.say(f"rewards: {self.tally.line()}")

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """Return the batch unchanged: GRPO uses no environment metrics in v0.5 to v0.7."""
        return batch, {}

    def shutdown(self) -> None:
        for worker in self.workers:
            ray.kill(worker)
