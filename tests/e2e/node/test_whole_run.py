"""A run from its installation to its evaluated checkpoint, with a kill in between.

The trainer and the evaluation of the image are stand-ins; charts, operator, Ray and the programs of jobs/ are not.
"""

from __future__ import annotations

import json

import pytest
from checkpoint_files import safetensors

from conftest import Installed
from harness.kube import Kube
from test_faults import STEPS, begin, let_end, until_second_start, whole

pytestmark = pytest.mark.shared

MODEL = "/data/models/tiny"
# How long a trainer saves; less than the head may take.
SAVE = 4.0


@pytest.mark.ci
def test_a_killed_run_resumes_and_is_evaluated(shared: Installed, kube: Kube) -> None:
    """Ray's head dies under the training; the weights that are saved after that are converted and evaluated."""
    base = shared.stack.on_volume(MODEL)
    safetensors(base / "model.safetensors", {"w": ("F32", [1], b"1234")}, {})
    (base / "config.json").write_text('{"model_type": "tiny"}')
    (base / "tokenizer.json").write_text("{}")
    run = shared.with_run("whole", retries=1, config={"policy": {"model_name": MODEL}})
    begin(run, shared, SAVE)
    kube.execute(run.pods()[0], "sh", "-c", "kill -9 $(pgrep gcs_server) || true")
    until_second_start(run, shared)
    let_end(run, shared, [0, STEPS])
    whole(run)

    step = f"step_{STEPS + 1}"
    tasks = [run.with_values(job={"task": task, "step": "latest"}) for task in ("convert", "evaluate")]
    for task in tasks:
        task.install("grpo-job")
        task.until_job("SUCCEEDED", 180)
    folder = run.on_volume(f"/data/runs/{run.job}")
    saved = folder / f"checkpoints/{step}/policy/weights/model/consolidated/model.safetensors"
    assert (folder / f"hf/{step}/model.safetensors").read_bytes() == saved.read_bytes()
    assert json.loads((folder / f"hf/{step}/config.json").read_text())["model_type"] == "tiny"
    results = {path.stem: json.loads(path.read_text()) for path in (folder / "evaluations").iterdir()}
    assert {name: found["settings"]["model"] for name, found in results.items()} == {
        "math500-base": MODEL,
        f"math500-{step}": f"/data/runs/{run.job}/hf/{step}",
    }
    assert [(found["correct"], found["total"]) for found in results.values()] == [(201, 500)] * 2
    for each in (*reversed(tasks), run):
        each.uninstall("grpo-job")
