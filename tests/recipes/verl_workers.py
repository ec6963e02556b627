"""Let verl's own workers judge configurations, many in one process: no GPU, no torch, no Ray.

usage: verl_workers.py SOURCES EDITS.json
EDITS.json is a list of configurations that are merged over ppo_trainer. Beyond what verl_loader.py asks, the real
init_model of the newer workers runs, which builds the sections of reference and actor, and asserts what it needs; the
classes that it would start are replaced. Prints JSON: for each configuration what refuses it, or null.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import sys
import types
from pathlib import Path
from typing import Any

from verl_loader import Finder, Nothing


class Model(types.SimpleNamespace):
    """Stands in for the model's section, which would be read from the hub."""

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


def build_workers(config: Any, with_reference: bool) -> None:
    """Run init_model of the newer workers, without the engines that it starts."""
    from verl.workers import engine_workers

    real = engine_workers.omega_conf_to_dataclass
    worker = types.SimpleNamespace(
        **{"role": "actor_ref" if with_reference else "actor", "config": config.actor_rollout_ref},
        **{"distillation_enabled": False, "_omega_profiler_config": None},
        **{name: lambda *_, **__: Nothing("Worker", (), {}) for name in ("ref_worker_cls", "actor_worker_cls")},
        **{"set_dispatch_collect": lambda *_, **__: None},
    )
    engine_workers.TrainingWorker = Nothing("TrainingWorker", (), {})
    engine_workers.TrainingWorkerConfig = types.SimpleNamespace
    engine_workers.CheckpointEngineRegistry = Nothing("CheckpointEngineRegistry", (), {})
    engine_workers.omega_conf_to_dataclass = lambda section, *_: (
        Model() if section is config.actor_rollout_ref.model else real(section)
    )
    try:
        engine_workers.ActorRolloutRefWorker.init_model(worker)
    finally:
        engine_workers.omega_conf_to_dataclass = real


def judge(base: Any, edits: dict[str, Any]) -> str | None:
    """Return what verl says against a configuration."""
    from omegaconf import OmegaConf, open_dict
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    config = copy.deepcopy(base)
    with open_dict(config):
        config.merge_with(OmegaConf.create(edits))
    reference = bool(config.actor_rollout_ref.actor.use_kl_loss or config.algorithm.use_kl_in_reward)
    critic = config.algorithm.adv_estimator == "gae" if config.critic.enable is None else bool(config.critic.enable)
    try:
        OmegaConf.resolve(config)
        validate_config(config=config, use_reference_policy=reference, use_critic=critic)
        omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
        if "use_legacy_worker_impl" not in config.trainer or config.trainer.use_legacy_worker_impl == "disable":
            build_workers(config, reference)
    except Exception as error:
        return f"{type(error).__name__}: {error} {error.__cause__ or ''}"
    return None


def main(sources: str, edits: str) -> None:
    tree = Path(sources).resolve()
    sys.path.insert(0, str(tree))
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Finder(tree))
    from hydra import compose, initialize_config_dir
    from verl.workers import config

    # It would read the critic's model from the hub.
    config.HFModelConfig.__post_init__ = lambda _: None

    with (
        contextlib.redirect_stdout(io.StringIO()),
        initialize_config_dir(config_dir=str(tree / "verl/trainer/config"), version_base=None),
    ):
        base = compose("ppo_trainer")
        found = [judge(base, each) for each in json.loads(Path(edits).read_text("utf-8"))]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
