"""A local copy of the model (job.stage): which disk gets it, and who still sees the model's own name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests.charts.test_grpo_job import plan
from tests.conftest import Render, stack_files, thin

DISKS: dict[str, Any] = {
    "scratch": {"mountPath": "/scratch", "ephemeral": {"size": "500Gi"}},
    "small": {"mountPath": "/small", "ephemeral": {"size": "512Mi"}},
    "twin": {"mountPath": "/twin", "ephemeral": {"size": "500Gi"}},
}
VERL = stack_files(recipe="qwen2.5-32b-gsm8k-verl")


def staged(config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"storage": DISKS, "job": {"stage": True, "config": config or {}}, **more}


@pytest.mark.parametrize("mode", thin(["existing", "ephemeral"], 2))
@pytest.mark.parametrize(
    ("files", "key", "model"),
    [
        (stack_files(), "policy.model_name", "google/gemma-3-27b-it"),
        (VERL, "actor_rollout_ref.model.path", "Qwen/Qwen2.5-32B-Instruct"),
    ],
)
def test_the_launcher_copies_to_the_largest_disk(
    files: list[Path], key: str, model: str, mode: str, render: Render
) -> None:
    values = staged()
    values["job"]["cluster"] = {"mode": mode}
    found = plan(render("grpo-job", values, files=files))
    assert found["stage"] == {
        "model": model,
        "key": key,
        "room": {
            "directory": "/scratch/grpo-models",
            "volume": "/scratch",
            "bytes": 500 << 30,
            "advice": "raise storage.scratch.ephemeral.size (500Gi), up to accelerator.worker.ephemeralStorage "
            "(1000Gi), or delete copies of other models in /scratch/grpo-models",
        },
    }
    # The node's disk is part of what job and cluster compare.
    assert found["facts"]["mounts"]["/scratch"] == "local disk"
    without = plan(render("grpo-job", {"storage": DISKS, "job": {"cluster": {"mode": mode}}}, files=files))
    assert {**without, "stage": found["stage"], "digest": found["digest"]} == found
    assert found["identity"]["model"] == model


@pytest.mark.parametrize("task", ["fetch", "convert", "evaluate", "clean"])
def test_staging_does_not_change_other_tasks(task: str, render: Render) -> None:
    job = {"task": task, "evaluate": {"benchmarks": {"math500": {}}}}
    off, on = (plan(render("grpo-job", {"storage": DISKS, "job": {**job, "stage": stage}})) for stage in (False, True))
    assert on == off


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        (staged({"policy": {"model_name": "/data/models/gemma"}}), False),
        # A folder of the image, and a volume that each node has for itself.
        (staged({"policy": {"model_name": "/database/gemma"}}), True),
        (staged({"policy": {"model_name": "/twin/gemma"}}), True),
        # A disk inside of a shared volume's folder.
        (
            staged(
                {"policy": {"model_name": "/data/local/gemma"}},
                storage={**DISKS, "in": {"mountPath": "/data/local", "ephemeral": {"size": "1Gi"}}},
            ),
            True,
        ),
        (staged(huggingface={"cache": {"volume": "twin"}}), True),
        (staged(huggingface={"cache": {"volume": ""}}), True),
    ],
)
def test_the_model_must_be_on_a_volume_every_node_can_read(
    values: dict[str, Any], refused: bool, render_text: Callable[..., Rendered]
) -> None:
    if not refused:
        render_text("grpo-job", values)
        return
    with pytest.raises(RenderError, match=r"job\.stage is true, but .* is on no volume that the nodes share"):
        render_text("grpo-job", values)


def test_the_notes_name_the_folder_of_the_copy(render_text: Callable[..., Rendered]) -> None:
    assert "copied to /scratch/grpo-models of each node" in render_text("grpo-job", staged()).notes
    assert "grpo-models" not in render_text("grpo-job", {"storage": DISKS}).notes


def test_the_converter_uses_the_same_copy_folder_name(render: Render) -> None:
    import convert

    directory = plan(render("grpo-job", staged()))["stage"]["room"]["directory"]
    assert Path(directory).name == convert.COPIES
