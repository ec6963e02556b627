"""verl itself composes and judges each configuration: its own Hydra tree, validate_config and dataclasses.

GRPO_VERL_SOURCES names a folder with verl-v0.6.1, verl-v0.7.1, verl-v0.8.0 and verl-v0.9.1, each a checkout or an
unpacked wheel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.charts.test_grpo_job import plan
from tests.conftest import ACCELERATORS, Render
from tests.jobs.harness import load_program
from tests.recipes.test_verl import DEFAULT, OTHERS, RECIPES, TRAINED, stack

LOADER = Path(__file__).with_name("verl_loader.py")


def sources(version: str) -> Path:
    """Return the folder with one version of verl; without it the test is skipped, and says so."""
    folder = Path(os.environ.get("GRPO_VERL_SOURCES", "/nowhere")) / f"verl-v{version}"
    if not (folder / "verl/trainer/config/ppo_trainer.yaml").is_file():
        pytest.skip(f"verl {version} was not asked: GRPO_VERL_SOURCES names no folder with verl-v{version}")
    pytest.importorskip("hydra", reason="hydra-core is in the extra dev")
    return folder


def ask(version: str, found: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Let verl judge a plan: its configuration as the launcher writes it, under the driver's variables."""
    tree = sources(version)
    (folder / "config.yaml").write_text(load_program("configuration").to_yaml(found["config"]), "utf-8")
    command = [sys.executable, str(LOADER), str(tree), str(folder), str(folder / "out")]
    environment = {**os.environ, **found["environment"], "PYTHONPATH": "", "HYDRA_FULL_ERROR": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("version", [DEFAULT, *OTHERS])
@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_verl_accepts_the_configuration(
    recipe: str, accelerator: str, version: str, render: Render, tmp_path: Path
) -> None:
    """It composes, validates and builds; every key is one that verl has; the data are where prepare-data puts them."""
    found = plan(render("grpo-job", files=stack(recipe, version, accelerator)))
    run = ask(version, found, tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    answer = json.loads(run.stdout.splitlines()[-1])
    variables = {f"ray_kwargs.ray_init.runtime_env.env_vars.{name}" for name in found["environment"]}
    # A key of TransferQueue, which verl passes on.
    assert set(answer["unknown"]) <= {*variables, "transfer_queue.backend.SimpleStorage.required_node_resource"}
    config = answer["config"]
    assert config["data"]["train_files"] == "/data/datasets/gsm8k/train.parquet"
    assert config["actor_rollout_ref"]["rollout"]["n"] == 8
    assert config["actor_rollout_ref"]["rollout"]["prompt_length"] == 512
    assert config["trainer"]["default_local_dir"] == f"/data/runs/{found['run']}/checkpoints"
    assert (tmp_path / "out/.hydra/config.yaml").is_file()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"actor_rollout_ref": {"rollout": {"mode": "sync"}}}, "sync"),
        ({"actor_rollout_ref": {"actor": {"foo": 1}}}, "foo"),
        ({"data": {"train_batch_size": 255}}, "2040"),
    ],
)
def test_verl_rejects_an_invalid_configuration(
    config: dict[str, Any], message: str, render: Render, tmp_path: Path
) -> None:
    """So an acceptance above means something."""
    found = plan(render("grpo-job", {"job": {"config": config}}, files=stack(TRAINED)))
    run = ask(DEFAULT, found, tmp_path)
    assert run.returncode != 0
    assert message in run.stderr


def test_a_key_unknown_to_verl_is_detected(render: Render, tmp_path: Path) -> None:
    """verl itself takes it in a file and ignores it."""
    found = plan(render("grpo-job", {"job": {"config": {"trainer": {"nnodse": 2}}}}, files=stack(TRAINED)))
    run = ask(DEFAULT, found, tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "trainer.nnodse" in json.loads(run.stdout.splitlines()[-1])["unknown"]
