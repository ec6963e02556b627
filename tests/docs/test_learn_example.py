"""The example that learns on a CPU: its values are clean, its judgement and its picture say what the rewards are."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT
from tests.jobs.torch_python import torch_python

EXAMPLE = ROOT / "examples/learn-on-cpu"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def curve() -> ModuleType:
    """Import the example's module, which lies in no package."""
    spec = importlib.util.spec_from_file_location("learn_curve", EXAMPLE / "curve.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result(rewards: list[float], seed: int = 1) -> dict[str, Any]:
    return {"seed": seed, "rewards": rewards, "killedAfter": 23}


def test_the_first_and_the_last_steps_are_compared(curve: ModuleType) -> None:
    rewards = [0.1] * curve.WINDOW + [0.5] * 40 + [0.9] * curve.WINDOW
    assert curve.means(rewards) == pytest.approx((0.1, 0.9))


def test_the_picture_plots_one_point_per_step(curve: ModuleType) -> None:
    results = [result([0.0, 0.5, 1.0], seed=7), result([1.0, 0.5, 0.0], seed=8)]
    root = ElementTree.fromstring(curve.picture(results))  # noqa: S314 - our own text
    lines = [line.get("points", "").split() for line in root.iter(f"{SVG}polyline") if line.get("stroke")]
    assert lines == [[curve.place(step, reward, 3) for step, reward in enumerate(one["rewards"], 1)] for one in results]
    heights = [float(point.partition(",")[2]) for point in lines[0]]
    assert heights == sorted(heights, reverse=True), "a higher reward is higher in the picture"
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"seed 7", "seed 8"} <= texts


@pytest.mark.parametrize(("ending", "cluster"), [("", "pods"), ("-verl", "processes")])
def test_the_committed_picture_matches_the_committed_results(curve: ModuleType, ending: str, cluster: str) -> None:
    lines = (EXAMPLE / f"results{ending}.jsonl").read_text(encoding="utf-8").splitlines()
    results = [json.loads(line) for line in lines]
    assert [one["seed"] for one in results] == [1, 2, 3]
    assert (EXAMPLE / f"reward{ending}.svg").read_text(encoding="utf-8") == curve.picture(results)
    for one in results:
        assert one["cluster"] == cluster
        early, late = curve.means(one["rewards"])
        assert late >= early + curve.MARGIN


@pytest.mark.full
def test_a_device_context_works_with_the_stand_in() -> None:
    """transformers makes models on `meta`, and gives values only to what is there."""
    change = "import torch, cpu_devices; cpu_devices.change(torch)"
    code = change + "\nwith torch.device('meta'): print(torch.arange(3).device)"
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLE / "image/standins")}
    words = [str(torch_python()), "-c", code]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    assert done.stdout == "meta\n"


def test_every_replaced_module_is_named_in_the_readme() -> None:
    """The table of what is real is no shorter than what is changed."""
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for path in Path(EXAMPLE / "image/standins").glob("c*_*.py"):
        assert f"`{path.name}`" in text, path.name


@pytest.mark.full
def test_a_device_set_for_a_block_of_code_is_used() -> None:
    """transformers makes a model on the device meta first; else it leaves its rotary embedding without values."""
    program = """
import torch, cpu_devices
cpu_devices.change(torch)
with torch.device("meta"):
    print(*(make(2).device for make in (torch.empty, torch.arange, torch.tensor)))
ones = torch.ones(2)
print(torch.empty(2, device="cuda:0").device, ones.to(torch.device("cuda")).device, ones.cuda().device)
"""
    words = [torch_python(), "-W", "ignore", "-c", program]
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=EXAMPLE / "image/standins")
    assert done.stdout.splitlines() == ["meta meta meta", "cpu cpu cpu"]
