"""The picture shows every GPU once, with its ranks and its engine."""

from __future__ import annotations

import re

import pytest

from grpo.plan import planner
from grpo.report import topology
from grpo.values.frameworks import configuration

H200 = {"name": "h200", "gpusPerNode": 8, "gpuMemoryGigabytes": 141}
MODEL = "policy.model_name=Qwen/Qwen3-8B"
TENSOR = "policy.dtensor_cfg.tensor_parallel_size"
ENGINE = "policy.generation.vllm_cfg.tensor_parallel_size"


def picture(nodes: int, *overrides: str) -> list[str]:
    run = configuration.run_of("nemo-rl", "v0.7.0", None, [MODEL, *overrides], H200, nodes)
    return [*topology.picture(planner.read(run))]


def cells(lines: list[str]) -> list[str]:
    """Return the cells of all nodes."""
    return [cell for line in lines[1:-1] for cell in re.split(r" {2,}", line)[1:]]


def test_colocated_gpus_show_training_and_generation() -> None:
    lines = picture(1, f"{TENSOR}=2", f"{ENGINE}=4")
    assert cells(lines) == [f"d{gpu // 2} t{gpu % 2} e{gpu // 4}" for gpu in range(8)]
    assert lines[-1].strip() == (
        "training: d data, t tensor rank; generation: e engine; both on every GPU; the driver needs no GPU"
    )


def test_separate_gpus_show_only_generation() -> None:
    colocated = "policy.generation.colocated"
    words = [
        f"{colocated}.enabled=false",
        f"{colocated}.resources.gpus_per_node=8",
        f"{colocated}.resources.num_nodes=1",
    ]
    lines = picture(2, *words, f"{ENGINE}=8")
    assert cells(lines) == [f"d{gpu}" for gpu in range(8)] + ["e0"] * 8
    assert "on GPUs of their own" in lines[-1]


@pytest.mark.parametrize(("nodes", "rows"), [(1, 1), (6, 6), (7, 6), (32, 6)])
def test_a_picture_of_many_nodes_is_abbreviated(nodes: int, rows: int) -> None:
    lines = picture(nodes)
    assert len(lines) == rows + 2
    assert lines[-2].startswith(f"node {nodes - 1} ")
    if nodes > rows:
        assert f"{nodes - rows + 1} more nodes" in lines[-3]
