"""Run a NeMo RL script with job.rewards as an additional environment, named rewards.

`python3 nemo_rl_rewards.py examples/run_grpo.py --config FILE`: the script gets the arguments after its name. The
configuration selects the environment: data.env_name (v0.5) or data.default.env_name (from v0.6) is rewards, and
env.rewards.num_workers is the number of processes that score responses. Earlier versions have no such registry.

This folder must be on a volume that every node mounts: the environment's processes import from it, and so does any
process that receives the environment from Ray. They find it through PYTHONPATH, which NeMo RL passes to all of
them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
from pathlib import Path

import rewards

NAME = "rewards"
ACTOR = "nemo_rl_environment.RewardsEnvironment"


def register() -> None:
    """Register the environment in NeMo RL: its name, and the Python interpreter for its process."""
    try:
        actors = importlib.import_module("nemo_rl.distributed.ray_actor_environment_registry")
        environments = importlib.import_module("nemo_rl.environments.utils")
        cluster = importlib.import_module("nemo_rl.distributed.virtual_cluster")
    except ImportError as error:
        raise rewards.RewardError(f"cannot import NeMo RL: {error}; job.rewards runs only in its image") from None
    if not hasattr(environments, "register_env"):
        raise rewards.RewardError(
            "this NeMo RL has no registry of environments: job.rewards needs job.version v0.5.0 or later"
        )
    actors.ACTOR_ENVIRONMENT_REGISTRY[ACTOR] = cluster.PY_EXECUTABLES.SYSTEM
    environments.register_env(NAME, ACTOR)


def share_modules() -> None:
    """Make this folder's modules importable for processes on other nodes."""
    paths = [str(rewards.HERE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))


def name_data_set(words: list[str]) -> None:
    """Pass the configuration's data set to verl's functions as the data source, because NeMo RL's rows have none."""
    with contextlib.suppress(Exception):
        import yaml

        data = yaml.safe_load(Path(words[words.index("--config") + 1]).read_text(encoding="utf-8"))["data"]
        train = data.get("train") or data
        os.environ["GRPO_DATA_SOURCE"] = str((train[0] if isinstance(train, list) else train)["dataset_name"])


def main(words: list[str]) -> int:
    if not words or not os.path.isfile(words[0]):
        rewards.say(f"expected a script and its arguments, got {words}")
        return 1
    try:
        if os.path.basename(words[0]) == "run_grpo_math.py":
            raise rewards.RewardError(f"{words[0]} always uses the math environment: run run_grpo.py instead")
        # A mistake in a reward ends the job here, before GPUs are used; the workers load the same files again.
        for line in rewards.load().describe():
            rewards.say(line)
        share_modules()
        name_data_set(words)
        register()
    except rewards.RewardError as error:
        rewards.say(str(error))
        return 1
    # As if Python had started the script: its folder comes first, ours stays importable.
    script = os.path.abspath(words[0])
    sys.argv, sys.path[0] = words, os.path.dirname(script)
    sys.path.insert(1, str(rewards.HERE))
    runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
