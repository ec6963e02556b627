"""Compute the configuration keys that the chart derives; job.config may only repeat their values.

The templates grpo.nemo-rl.derived and grpo.verl.derived (charts/grpo-job/templates) do the same. A key is left out
if the values do not determine it. tests/grpo/test_config.py compares the two implementations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from postrender.types import Json

Tree = Mapping[str, Any]

_LOGGERS: Final = ("tensorboard", "wandb", "mlflow")
_NEMO_RL_BASE: Final = "/opt/nemo-rl/examples/configs/grpo_math_1B.yaml"
# From this version on, each data set has a section.
_SECTIONS: Final = (0, 6, 0)
# From this version on, the reward has a section.
_REWARD: Final = (0, 7, 0)
# From this version on, verl has TransferQueue.
_QUEUE: Final = (0, 9, 0)

# Derived keys, and the keys of the values that give them; those of verl's loggers depend on what is on.
_FROM: Final = {
    re.compile(r"trainer\.nnodes|cluster\.num_nodes"): "job.nodes or ray.workers.replicas",
    re.compile(r"trainer\.n_gpus_per_node|cluster\.gpus_per_node"): "accelerator.gpusPerNode",
    re.compile(r"trainer\.logger"): "tracking.NAME.enabled",
    re.compile(r"logger\.(tensorboard|wandb|mlflow)_enabled"): "tracking.{0}.enabled",
    re.compile(r"logger\.wandb\.project"): "tracking.wandb.project",
    re.compile(r"logger\.mlflow\.experiment_name"): "tracking.mlflow.experiment",
    re.compile(r"logger\.mlflow\.tracking_uri"): "tracking.mlflow.trackingUri",
    re.compile(r"trainer\.default_local_dir|checkpointing\.checkpoint_dir|logger\.log_dir"): (
        "job.name and the mountPath of job.volume"
    ),
    re.compile(r"hydra\.run\.dir"): "job.name, job.attempt and the mountPath of job.volume",
    re.compile(r"ray_kwargs\.ray_init\.runtime_env\.env_vars\.GRPO_DATASETS"): "the mountPath of job.volume",
    re.compile(r"ray_kwargs\.ray_init\.runtime_env\.env_vars\.(\w+)"): "job.env.{0}",
    re.compile(r"env\.rewards\..*|data(?:\.default)?\.env_name"): "job.rewards",
}

# As the template grpo.guardVariables has them.
_GUARD: Final = {
    "PYTHONUNBUFFERED": "1",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_FR_DUMP_TEMP_FILE": "/tmp/grpo-nccl-rank-",  # noqa: S108 - in a pod
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/grpo-nccl-rank-",  # noqa: S108 - in a pod
}


class Derived:
    """A stack's values, and what the chart derives from them for a number of nodes and GPUs per node."""

    def __init__(self, values: Tree, release: tuple[int, ...], nodes: int, gpus: int) -> None:
        self._job, self._tracking = mapping(values.get("job")), mapping(values.get("tracking"))
        self._storage = mapping(values.get("storage"))
        self._ray_env = mapping(mapping(values.get("ray")).get("env"))
        self._release = release
        self._nodes, self._gpus = nodes, gpus
        self._directory = self._folder(
            self._job.get("volume"), f"runs/{self._job['name']}" if "name" in self._job else ""
        )
        self._has_rewards = any(reward is not None for reward in mapping(self._job.get("rewards")).values())

    def nemo_rl(self, given: Tree) -> dict[str, Any]:
        """Return the keys that the chart derives for NeMo RL; `given` is the configuration from the files."""
        logger: dict[str, Any] = {f"{name}_enabled": self._is_on(name) for name in _LOGGERS}
        derived: dict[str, Any] = {
            "defaults": _NEMO_RL_BASE,
            "cluster": {"num_nodes": self._nodes, "gpus_per_node": self._gpus},
            "logger": logger,
        }
        wandb, mlflow = mapping(self._tracking.get("wandb")), mapping(self._tracking.get("mlflow"))
        if self._is_on("wandb"):
            logger["wandb"] = {"project": wandb.get("project"), "name": self._name_in("wandb")}
        if self._is_on("mlflow"):
            names = {"experiment_name": mlflow.get("experiment"), "run_name": self._name_in("mlflow")}
            logger["mlflow"] = {"tracking_uri": mlflow.get("trackingUri"), **names}
        if self._directory:
            logger["log_dir"] = f"{self._directory}/logs"
            derived["checkpointing"] = {"checkpoint_dir": f"{self._directory}/checkpoints"}
        if self._has_rewards:
            name = {"env_name": "rewards"}
            workers = mapping(mapping(given.get("env")).get("rewards")).get("num_workers", 8)
            derived["data"] = name if self._release < _SECTIONS else {"default": name}
            derived["env"] = {"rewards": {"num_workers": workers}}
        return derived

    def verl(self, given: Tree) -> dict[str, Any]:
        """Return the keys that the chart derives for verl; `given` is the configuration from the files."""
        trainer: dict[str, Any] = {"nnodes": self._nodes, "n_gpus_per_node": self._gpus}
        trainer["logger"] = ["console", *(name for name in _LOGGERS if self._is_on(name))]
        for name, project in (("mlflow", "experiment"), ("wandb", "project")):
            if self._is_on(name):
                trainer["project_name"] = mapping(self._tracking[name]).get(project)
                trainer["experiment_name"] = self._name_in(name)
        ray: dict[str, Any] = {"num_cpus": None}
        derived = {"defaults": ["ppo_trainer", "_self_"], "trainer": trainer, "ray_kwargs": {"ray_init": ray}}
        if self._release >= _QUEUE and not _storage(given).get("required_node_resource"):
            derived["transfer_queue"] = {"backend": {"SimpleStorage": {"required_node_resource": "GPU"}}}
        if self._directory:
            derived["hydra"] = {"run": {"dir": self._attempt()}, "output_subdir": ".hydra"}
            trainer["default_local_dir"] = f"{self._directory}/checkpoints"
            if "rollout_data_dir" not in mapping(given.get("trainer")):
                trainer["rollout_data_dir"] = f"{self._directory}/logs/rollouts"
            ray["runtime_env"] = {"env_vars": self._environment()}
            if self._has_rewards:
                function = {
                    "custom_reward_function": {"path": f"{self._code()}/verl_reward.py", "name": "compute_score"}
                }
                derived |= function if self._release < _REWARD else {"reward": function}
        return derived

    def source(self, path: str) -> str:
        """Return the values keys from which the chart derives a key; an empty text if the derived value is fixed."""
        for pattern, keys in _FROM.items():
            if found := pattern.fullmatch(path):
                return keys.format(*found.groups())
        if path in ("trainer.project_name", "trainer.experiment_name"):
            # As in verl(): the later of the two gives the names.
            logger = "wandb" if self._is_on("wandb") else "mlflow"
            if path == "trainer.experiment_name":
                return self._name_key(logger)
            return f"tracking.{logger}.{'project' if logger == 'wandb' else 'experiment'}"
        found = re.fullmatch(r"logger\.(wandb|mlflow)\.(?:name|run_name)", path)
        return self._name_key(found[1]) if found else ""

    def _name_key(self, logger: str) -> str:
        key = f"tracking.{logger}.name"
        return key if mapping(self._tracking.get(logger)).get("name") else f"{key} (job.name where it is empty)"

    def decided(self, framework: str, given: Tree) -> dict[str, Any]:
        """Return the files' configuration without the keys that job.rewards overrides."""
        if not self._has_rewards:
            return dict(given)
        if framework == "verl":
            kept = {key: value for key, value in given.items() if key != "custom_reward_function"}
            return {
                **kept,
                **({"reward": _without(kept["reward"], "custom_reward_function")} if "reward" in kept else {}),
            }
        return _without_own_rewards(given)

    def _environment(self) -> dict[str, Any]:
        """Return the environment variables that verl passes to its workers."""
        logs = f"{self._directory}/logs"
        found: dict[str, Any] = {"GRPO_DATASETS": self._folder(self._job.get("volume"), "datasets")}
        found |= {"TENSORBOARD_DIR": logs} if self._is_on("tensorboard") else {}
        found |= {"WANDB_DIR": logs} if self._is_on("wandb") else {}
        if self._is_on("mlflow"):
            found["MLFLOW_TRACKING_URI"] = mapping(self._tracking["mlflow"]).get("trackingUri")
        modules = [self._code()] if self._has_rewards else []
        modules += [folder] if (folder := self._code_of_framework()) else []
        # Ray puts the pod's own value in the place of the last entry.
        found |= {"PYTHONPATH": ":".join([*modules, "$PYTHONPATH"])} if modules else {}
        given = {name: mapping(entry).get("value") for name, entry in mapping(self._job.get("env")).items()}
        found |= {name: value for name, value in given.items() if value is not None}
        return self._guard_variables() | found

    def _guard_variables(self) -> dict[str, Any]:
        """Return the variables that the training guard adds; ray.env takes precedence."""
        if mapping(self._job.get("guard")).get("enabled") is False:
            return {}
        return {name: value for name, value in _GUARD.items() if self._ray_env.get(name) is None}

    def _code_of_framework(self) -> str:
        """Return the folder of the framework code that is not in the image; its name lists the packages."""
        code = mapping(self._job.get("code"))
        packages = {name: version for name, version in mapping(code.get("packages")).items() if version is not None}
        parts = [f"{name}-{packages[name]}" for name in sorted(packages)]
        if code.get("repository"):
            name = str(code["repository"]).rstrip("/").rpartition("/")[2].removesuffix(".git")
            parts.insert(0, f"{name}-{str(code.get('revision'))[:12]}")
        return self._folder(code.get("volume") or self._job.get("volume"), f"code/{'+'.join(parts)}") if parts else ""

    def _attempt(self) -> str:
        return f"{self._directory}/attempts/{self._job.get('attempt')}"

    def _code(self) -> str:
        return f"{self._attempt()}/code"

    def _folder(self, volume: Json, name: str) -> str:
        """Return the path of a folder on a volume; empty if the values do not determine it."""
        mount = mapping(self._storage.get(str(volume))).get("mountPath")
        return f"{mount}/{name}" if mount and name else ""

    def _is_on(self, logger: str) -> bool:
        return mapping(self._tracking.get(logger)).get("enabled") is True

    def _name_in(self, logger: str) -> Json:
        return mapping(self._tracking.get(logger)).get("name") or self._job.get("name")


def mapping(value: Json) -> dict[str, Any]:
    """Return a map unchanged; return an empty map for anything else."""
    return value if isinstance(value, dict) else {}


def _storage(given: Tree) -> dict[str, Any]:
    """Return the settings for TransferQueue's own storage in a verl configuration."""
    backend = mapping(mapping(given.get("transfer_queue")).get("backend"))
    return mapping(backend.get("SimpleStorage"))


def _without_own_rewards(given: Tree) -> dict[str, Any]:
    """Return a NeMo RL configuration without the keys that select the user's environments and rewards."""
    kept = dict(given)
    if isinstance(kept.get("data"), dict):
        data = _without(kept["data"], "env_name")
        for name in data.keys() & {"default", "train", "validation"}:
            section = data[name]
            if isinstance(section, list):
                data[name] = [_without(each, "env_name") for each in section]
            else:
                data[name] = _without(section, "env_name")
        kept["data"] = data
    if "env" in kept:
        kept["env"] = _without(kept["env"], "rewards")
    return kept


def _without(section: Json, name: str) -> Json:
    return {key: value for key, value in section.items() if key != name} if isinstance(section, dict) else section
