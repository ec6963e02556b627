"""Load the custom reward function by verl's own code, as its reward workers do, and call it from threads."""

from __future__ import annotations

import inspect
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from omegaconf import OmegaConf
from verl.trainer.ppo.reward import get_custom_reward_fn


def main() -> None:
    version, path, responses = sys.argv[1:]
    section: dict[str, Any] = {"custom_reward_function": {"path": path, "name": "compute_score"}}
    config = OmegaConf.create(section if version == "0.6.1" else {"reward": section})
    function = get_custom_reward_fn(config)
    assert function is not None
    # verl waits for a coroutine and gives anything else to a pool of threads.
    assert not inspect.iscoroutinefunction(function)

    def call(response: str) -> Any:
        row = {"data_source": "openai/gsm8k", "ground_truth": "x+72", "extra_info": {"index": 0, "num_turns": None}}
        more = {"reward_router_address": None, "reward_model_tokenizer": None}
        return function(solution_str=response, **row, **more)

    with ThreadPoolExecutor(2) as pool:
        print(json.dumps(list(pool.map(call, json.loads(responses)))))


if __name__ == "__main__":
    main()
