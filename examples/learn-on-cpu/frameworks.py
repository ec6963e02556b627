"""What differs between the frameworks: their values files, the paths and variables of their image, their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools/learn"
DATA, IMAGE = Path("/data"), Path("/opt/learn-on-cpu")
VENV, CODE = Path("/opt/nemo_rl_venv"), Path("/opt/nemo-rl")
VERL_VENV, WHEELS = Path("/opt/verl_venv"), Path("/opt/verl-wheels")
ONE_GPU = ("values/accelerators/h200.yaml", "values/examples/one-gpu.yaml")
SITE = "examples/learn-on-cpu/values.yaml"
# What the image gives every process with each framework.
VARIABLES = {
    "PYTHONPATH": str(IMAGE / "standins"),
    # Without bytecode every process would compile torch, Ray and the framework again.
    "PYTHONDONTWRITEBYTECODE": "",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "disabled",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # For the sake of a small machine: no pool of idle workers, no metrics, and time to start.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_ENABLE_METRICS_COLLECTION": "0",
    "RAY_worker_register_timeout_seconds": "300",
    # An owner of a run that was killed counts as gone after 8 seconds instead of 30.
    "GRPO_OWNER_BEAT_SECONDS": "1",
    "GRPO_OWNER_LAPSE_SECONDS": "8",
}


class Framework(NamedTuple):
    """A framework as the story needs it; `folders` maps a path of the image to a folder of .tools/learn."""

    name: str
    files: Sequence[str]
    venv: Path
    folders: Mapping[Path, str]
    own_variables: Mapping[str, str]
    # The keys below job.config of a run's seed and of its number of steps.
    seed: str
    steps: str
    # The tasks that come before the training, and the model of image/models.json that learns.
    preparations: Sequence[str]
    model: str

    @property
    def variables(self) -> dict[str, str]:
        """What the image gives every process, with the stand-ins."""
        path = f"{self.venv}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {**VARIABLES, "PATH": path, **self.own_variables}

    def missing(self) -> bool:
        """Return whether tools/learn.sh has to be run for this framework."""
        stamp = TOOLS / self.folders[self.venv] / ".stamp"
        return not stamp.is_file() or not all((TOOLS / name).is_dir() for name in self.folders.values())


FRAMEWORKS = {
    "nemo-rl": Framework(
        name="nemo-rl",
        files=(*ONE_GPU, "values/recipes/smoke.yaml", SITE, "examples/learn-on-cpu/values-nemo-rl.yaml"),
        venv=VENV,
        folders={VENV: "venv", CODE: "source"},
        own_variables={"NRL_DISABLE_NUMA_BINDING": "1"},
        seed="grpo.seed",
        steps="grpo.max_num_steps",
        preparations=("prepare-data",),
        model="cpu",
    ),
    "verl": Framework(
        name="verl",
        files=(
            *ONE_GPU,
            "values/recipes/qwen2.5-32b-gsm8k-verl.yaml",
            "values/frameworks/verl-0.9.1.yaml",
            SITE,
            "examples/learn-on-cpu/values-verl.yaml",
        ),
        venv=VERL_VENV,
        folders={VERL_VENV: "venv-verl", WHEELS: "wheels"},
        own_variables={
            "LEARN_ON": "verl",
            "VERL_USE_EXTERNAL_MODULES": "cpu_verl",
            "VERL_PLATFORM": "cpu",
            # verl has FSDP for cuda and npu only.
            "VERL_ENGINE_DEVICE": "cuda",
            # Task fetch installs job.code.packages with pip: from these wheels, and with Python 3.13 too.
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(WHEELS),
            "PIP_IGNORE_REQUIRES_PYTHON": "1",
        },
        seed="data.seed",
        steps="trainer.total_training_steps",
        preparations=("fetch", "prepare-data"),
        model="verl",
    ),
}
