"""The formulas agree with what PyTorch counts on fake tensors: measured.yaml, which measure.py writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.plan import training
from grpo.plan.phase import Item, Phase
from grpo.plan.setup import (
    KEEP_ALL,
    KEEP_LAYERS,
    KEEP_PARTS,
    Batch,
    Checkpoint,
    Generator,
    Layout,
    Machine,
    Micro,
    Setup,
    Shards,
    Trainer,
)
from grpo.plan.units import gib
from grpo.values.frameworks import parameters
from grpo.values.frameworks.model import Model

ROWS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("measured.yaml").read_text("utf-8"))["rows"]
KEPT = {"none": KEEP_ALL, "submodule": KEEP_PARTS, "layer": KEEP_LAYERS}
GENERATOR = Generator(8, 1, 1, 0.5, 512, 256, 8192, 2, 2, False, False, False, frozenset())
# FSDP's two moments of a pass, without what CUDA and NCCL take: PyTorch does not count that.
NOTHING = Item("", "", "")


def setup(row: dict[str, Any]) -> Setup:
    """Return the setup that a row was measured with; verl's loss there has its logits in place."""
    model, world, is_nemo = Model(row["model"], None), row["world"], row["framework"] == "nemo_rl"
    shards, micro = Shards(world, world, world), Micro(1, row["tokens"], 0, 1, 1, padded=True)
    trainer = Trainer(
        engine="DTensor v1" if is_nemo else "FSDP",
        layout=Layout(world, world, 1, 1, 1, 1, sequence_parallel=False),
        weights=shards,
        states=shards,
        weight=4,
        gradient=4,
        moments=8,
        step=4,
        gathered=True,
        activation=2,
        keep=KEPT[row["mode"]],
        on_host=frozenset(),
        lora=0,
        train=micro,
        logprob=micro,
        train_logits=12 if is_nemo else 2,
        logprob_logits=8 if is_nemo else 2,
        vocabulary_shards=1,
        reference=False,
        in_flight=1,
        keeps_cache=False,
    )
    machine = Machine("measured", 1, 8, gib(80), None, None)
    batch, checkpoint = Batch(1, 1, 1, 1, 1, 1, 0), Checkpoint(0, 0, None, "")
    return Setup(model, parameters.count(model), machine, trainer, GENERATOR, batch, checkpoint)


def predicted(row: dict[str, Any], names: tuple[str, ...]) -> float:
    """Return the largest sum of the phases, in bytes, without what PyTorch does not count."""
    phases = [each for each in training.phases(setup(row), NOTHING) if each.name in names]
    return max(_sum(each) for each in phases)


def _sum(phase: Phase) -> float:
    return sum(item.at(phase.worst).count for item in phase.items if item.name != "CUDA and NCCL")


def test_there_are_enough_measurements_to_compare() -> None:
    assert len({row["model"] for row in ROWS}) == 3
    assert len(ROWS) > 100


@pytest.mark.parametrize("row", [row for row in ROWS if row["what"] == "train_step"], ids=str)
def test_the_predicted_training_peak_is_within_a_tenth_of_the_measured_one(row: dict[str, Any]) -> None:
    found = predicted(row, (training.LOSS, training.BACKWARD, training.END))
    assert found == pytest.approx(row["bytes"]["peak"], rel=0.10)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["what"] == "logprob_step" and row["framework"] == "nemo_rl"], ids=str
)
def test_the_predicted_logprob_peak_is_within_a_tenth_of_the_measured_one(row: dict[str, Any]) -> None:
    colocated = GENERATOR._replace(colocated=True)
    given = setup(row)._replace(generator=colocated)
    phase = next(each for each in training.phases(given, NOTHING) if each.name == training.LOGPROB)
    assert _sum(phase) == pytest.approx(row["bytes"]["peak"], rel=0.10)
