"""A stand-in for the training image: its virtual environment, its code folder and a trainer that records its call.

Behaviour of the trainer and its records live in /opt/nemo-rl/e2e, beside the code: a test can set them without adding
anything to the pod or to the run's configuration.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.sandbox import mount
from harness.trainer import Trainer

if TYPE_CHECKING:
    from harness.stack import Stack

CODE = Path("/opt/nemo-rl")
VENV = Path("/opt/nemo_rl_venv")
# What the image's own ENV lines give every process.
ENVIRONMENT = {
    "PATH": f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


class Image(Trainer):
    """The files of the image inside the private root."""

    def __init__(self, ray: Path, standins: Path) -> None:
        super().__init__(CODE / "e2e")
        self.trainer = standins / "run_grpo.py"
        self.jobs = standins.parents[2] / "jobs"
        VENV.mkdir(exist_ok=True)
        mount("--bind", ray, VENV)
        (CODE / "examples").mkdir(parents=True, exist_ok=True)
        # The base configuration, on which the run's own one rests by `defaults`; the stand-in trainer does not read it.
        (CODE / "examples/configs").mkdir(exist_ok=True)
        (CODE / "examples/configs/grpo_math_1B.yaml").write_text("{}\n")
        # v0.4.0 has the older name, v0.5.0 both.
        for name in ("run_grpo.py", "run_grpo_math.py"):
            shutil.copy(self.trainer, CODE / "examples" / name)

    def prepare(self, stack: Stack, plan: dict[str, Any]) -> None:
        """Put on the volume what the tasks fetch and prepare-data would have put there, verl a stand-in."""
        for path, task in plan["neededFiles"].items():
            file = stack.on_volume(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            if task == "fetch":
                self._fetch_verl(file.parent)
            else:
                file.touch()

    def _fetch_verl(self, directory: Path) -> None:
        package = directory / "verl/trainer"
        package.mkdir(parents=True, exist_ok=True)
        for folder in (package, package.parent):
            (folder / "__init__.py").touch()
        shutil.copy(self.trainer, package / "main_ppo.py")
        path = list(sys.path)
        sys.path[:0] = [str(self.jobs / "common"), str(self.jobs / "tasks")]
        try:
            digest = importlib.import_module("code_digest").tree_digest(str(directory))
        finally:
            sys.path[:] = path
        (directory / "grpo.json").write_text(json.dumps({"digest": digest}))
