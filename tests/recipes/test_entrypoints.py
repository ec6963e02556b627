"""The entrypoint of each recipe, run by a shell as Ray does: the trainer gets what the chart rendered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.test_grpo_job import rayjob
from tests.conftest import RECIPES, ROOT, Render, thin
from tests.jobs.tasks import load_task

# The text in which a shell, YAML, JSON and Helm would each find something of theirs.
HOSTILE = 'it\'s "quoted" $HOME `id` # no comment, {x} \\\nsecond line: 1e-5'
OWN = {"text": HOSTILE, "small": 1e-09}
TRAINER = ROOT / "tests/e2e/standins/run_grpo.py"
# Ray's client, on a cluster with as many free GPU nodes as any recipe asks for.
RAY = """
def init(address, **_): pass
def nodes(): return [{"Alive": True, "Resources": {"CPU": 8, "GPU": 8.0}}] * 4
def available_resources(): return {"CPU": 32, "GPU": 32.0}
"""


class Machine:
    """The folders of the image and of the volumes below a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state"
        for name in ("bin", "data", "weights", "state", "modules", "opt/nemo-rl/examples/configs"):
            (root / name).mkdir(parents=True)
        (root / "bin/python3").symlink_to(sys.executable)
        (root / "modules/ray.py").write_text(RAY)
        (root / "opt/nemo-rl/examples/configs/grpo_math_1B.yaml").write_text("{}\n")
        for name in ("run_grpo.py", "run_grpo_math.py"):
            shutil.copy(TRAINER, root / "opt/nemo-rl/examples" / name)
        (self.state / "control.json").write_text("{}")

    def moved(self, entrypoint: str) -> str:
        """Return an entrypoint with the paths of this machine; the packed programs stay as they are."""
        plan, mark, programs = entrypoint.partition("base64 -d <<")
        for path in ("/data", "/weights", "/opt/nemo-rl"):
            plan = plan.replace(f'"{path}', f'"{self.root}{path}')
        return plan + mark + programs

    def prepare(self, plan: dict[str, Any]) -> None:
        """Put onto the volume what the tasks fetch and prepare-data would have put there, verl a stand-in."""
        for path, task in plan["neededFiles"].items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
            if task == "fetch":
                fetch_verl(Path(path).parent)

    def run(self, entrypoint: str, plan: dict[str, Any]) -> dict[str, Any]:
        """Run an entrypoint as Ray does, and return what the trainer saw."""
        environment = {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.root / "modules"),
            "GRPO_CLUSTER_FACTS": json.dumps(plan["facts"]),
            "STANDIN_STATE": str(self.state),
        }
        command = ["sh", "-c", entrypoint]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        (call,) = [json.loads(line) for line in (self.state / "calls.jsonl").read_text().splitlines()]
        return dict(call)


def fetch_verl(folder: Path) -> None:
    """Lay the stand-in out as the trainer of verl, with the digest that task fetch writes."""
    package = folder / "verl/trainer"
    package.mkdir(parents=True)
    for each in (package, package.parent):
        (each / "__init__.py").touch()
    shutil.copy(TRAINER, package / "main_ppo.py")
    (folder / "grpo.json").unlink()
    digest = load_task("code_digest").tree_digest(str(folder))
    (folder / "grpo.json").write_text(json.dumps({"digest": digest}))


@pytest.mark.parametrize("recipe", thin(RECIPES, 12))
def test_the_trainer_receives_what_the_chart_rendered(recipe: str, render: Render, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    job = {"config": {"own": OWN}, "env": {"HOSTILE": {"value": HOSTILE}}}
    rendered = render("grpo-job", {"job": job}, recipe=recipe)
    entrypoint = machine.moved(rayjob(rendered)["spec"]["entrypoint"])
    plan = json.loads(entrypoint.split("GRPO_PLAN'\n", 1)[1].split("\nGRPO_PLAN\n", 1)[0])
    machine.prepare(plan)
    call = machine.run(entrypoint, plan)
    config = yaml.safe_load(call["config"])
    assert config == plan["config"]
    assert config["own"] == OWN
    assert call["argv"][1:] == plan["command"][-len(call["argv"][1:]) :]
    assert call["environ"]["HOSTILE"] == HOSTILE
    assert call["environ"]["GRPO_DATASETS"] == f"{tmp_path}/data/datasets"
    assert call["cwd"] == plan["workingDirectory"] or call["cwd"].endswith("/work")
