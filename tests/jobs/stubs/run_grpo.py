"""Stand in for NeMo RL's script: what it does about environments and rewards, by NeMo RL's own code, then print it."""

from __future__ import annotations

import inspect
import json
import os
import sys
from typing import Any

from nemo_rl.data import processors
from nemo_rl.data.interfaces import TaskDataSpec
from nemo_rl.distributed.ray_actor_environment_registry import get_actor_python_env
from nemo_rl.environments import utils
from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn
from nemo_rl.experience.rollouts import calculate_rewards


class Tokenizer:
    """Words are tokens, and a chat is its contents."""

    def apply_chat_template(self, messages: Any, **kwargs: Any) -> str:
        return "\n".join(message["content"] for message in messages)

    def __call__(self, text: str, **kwargs: Any) -> Any:
        return {"input_ids": [text.split()]}


def make_environment() -> Any:
    config = {"rewards": {"num_workers": 2}}
    if "env_configs" in inspect.signature(utils.create_env).parameters:
        return utils.create_env(env_name="rewards", env_configs=config)
    return utils.create_env(env_name="rewards", env_config=config["rewards"])


def main() -> None:
    environment = make_environment()
    kind = type(environment.instance)
    missing = [name for name in EnvironmentInterface.__abstractmethods__ if name in kind.__abstractmethods__]
    parameters = {
        name: [list(inspect.signature(getattr(part, name)).parameters) for part in (EnvironmentInterface, kind)]
        for name in EnvironmentInterface.__abstractmethods__
    }
    spec = TaskDataSpec(task_name="gsm8k", prompt_file=sys.argv[2])
    row = {
        "messages": [{"role": "user", "content": "6 times 12?"}, {"role": "assistant", "content": "72"}],
        "task_name": "gsm8k",
    }
    batch: dict[str, Any] = {"message_log": [], "extra_env_info": [], "task_name": []}
    for response in json.loads(sys.argv[3]):
        datum = processors.PROCESSOR_REGISTRY["math_hf_data_processor"](row, spec, Tokenizer(), 100, 0)
        messages = [*datum["message_log"], {"role": "assistant", "content": response, "token_ids": []}]
        batch["message_log"].append(messages)
        batch["extra_env_info"].append(datum["extra_env_info"])
        batch["task_name"].append(datum["task_name"])
    result = calculate_rewards(batch, {"gsm8k": environment})
    print(
        json.dumps(
            {
                "arguments": sys.argv,
                "folder": sys.path[0],
                "pythonpath": os.environ["PYTHONPATH"].split(os.pathsep)[0],
                "interpreter": environment.options["runtime_env"]["py_executable"] == sys.executable,
                "registered": get_actor_python_env("nemo_rl_environment.RewardsEnvironment") == sys.executable,
                "workers": len(environment.instance.workers),
                "inherits": issubclass(kind, EnvironmentInterface),
                "missing": missing,
                "parameters": parameters,
                "prompt": batch["message_log"][0][0]["content"],
                "kind": isinstance(result, EnvironmentReturn),
                "rewards": list(result.rewards),
                "done": list(result.terminateds),
                "observations": result.observations,
            }
        )
    )


if __name__ == "__main__":
    main()
