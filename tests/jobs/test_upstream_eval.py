"""What evaluate.py asks, given to the real run_eval.py of each version in GRPO_NEMO_RL_SOURCES/nrl-v0.4.0 and so on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from .test_evaluate import HERE, MATH, VERSIONS

SOURCES = os.environ.get("GRPO_NEMO_RL_SOURCES")
pytestmark = pytest.mark.skipif(not SOURCES, reason="GRPO_NEMO_RL_SOURCES names no folder with nrl-v0.4.0 and so on")
SETTINGS = {**MATH, "temperature": 0.6, "topP": 0.95, "samples": 16, "maxNewTokens": 32768, "seed": 7}
BENCHMARKS = [
    (version, name)
    for version in VERSIONS
    for name in ("math500", "aime2024", "aime2025", "gsm8k", *(["aime2026"] if version >= "v0.7.0" else []))
]


def tree(version: str) -> Path:
    assert SOURCES
    return Path(SOURCES) / f"nrl-{version}"


@pytest.mark.parametrize(("version", "benchmark"), BENCHMARKS)
def test_the_real_program_accepts_our_overrides(jobs: Any, version: str, benchmark: str) -> None:
    nemo_eval, children = jobs("nemo_rl_evaluation"), jobs("child_process")
    task = {"version": version, "tensorParallelSize": 4, "nodes": 2, "gpusPerNode": 8, "vllmKwargs": {"block_size": 32}}
    asked = nemo_eval.overrides(task, benchmark, SETTINGS, "/data/runs/gemma/hf/step_30")
    words = nemo_eval.command(task, benchmark, asked)
    script = [sys.executable, str(HERE / "upstream_eval.py"), str(tree(version))]
    done = subprocess.run([*script, *words[2:]], check=False, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    reader = nemo_eval.Reader(asked)
    for line in children.Lines().feed(done.stdout):
        reader(line)
    assert reader.agreed, done.stdout.decode()
    result = {"model": "step_30", "dataset": "math500", "metric": "pass@1", "samples": "16"}
    assert reader.result == {**result, "correct": 447.4375, "total": 500}


@pytest.mark.parametrize(("version", "benchmark"), BENCHMARKS)
def test_every_override_is_a_key_of_the_version(jobs: Any, version: str, benchmark: str) -> None:
    nemo_eval = jobs("nemo_rl_evaluation")
    task = {"version": version, "tensorParallelSize": 4, "nodes": 2, "gpusPerNode": 8}
    name, _ = nemo_eval.data_of(benchmark, version)
    folder = tree(version) / "examples/configs/evals"
    layers = [yaml.safe_load((folder / file).read_text(encoding="utf-8")) for file in ("eval.yaml", f"{name}.yaml")]
    assert layers[1]["defaults"] == "eval.yaml"
    asked = nemo_eval.overrides(task, benchmark, SETTINGS, "/m")
    for key in nemo_eval.Reader(asked).asked:
        assert any(nemo_eval.at(layer, key) != "nothing" for layer in layers), key
    assert (tree(version) / nemo_eval.PROMPT).is_file()


@pytest.mark.parametrize(("version", "benchmark"), BENCHMARKS)
def test_the_version_knows_the_data_set(jobs: Any, version: str, benchmark: str) -> None:
    _, keys = jobs("nemo_rl_evaluation").data_of(benchmark, version)
    source = (tree(version) / "nemo_rl/data/datasets/eval_datasets/__init__.py").read_text(encoding="utf-8")
    name = keys.pop("data.dataset_name")
    if benchmark == "gsm8k":
        assert all(f'data_config["{key.removeprefix("data.")}"]' in source for key in keys)
        assert not name.startswith("mmlu")
    else:
        # From v0.8.0 on the script itself asks the data sets of the training for some.
        assert f'"{name}"' in source + (tree(version) / "examples/run_eval.py").read_text(encoding="utf-8")
