"""A training never starts on a step that its trainer would fail on: launches over broken checkpoints."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from . import checkpoint_files as files
from .simulation.machine import Launch, Machine

CUT = "weights/__1_0.distcp is cut off: it has 3 of 7 bytes"
# A trainer that resumes as NeMo RL does, notes where, and loses the end of the file that the system had not written.
TRAINER = """
import pathlib, sys
steps = sorted(int(path.name[5:]) for path in pathlib.Path(sys.argv[1]).glob("step_*"))
with open(sys.argv[2], "a") as file:
    file.write(f"{steps[-1] if steps else 0} ")
for broken in pathlib.Path(sys.argv[1], f"step_{steps[-1]}").rglob("__1_0.distcp"):
    broken.write_bytes(b"wei")
sys.exit(1)
"""


def launch(machine: Machine, framework: str = "nemo-rl", **changes: Any) -> Launch:
    identity = {"run": "gemma3-gsm8k", "framework": framework}
    return machine.start_plan(machine.plan(**{"identity": identity, **changes}))


def cut(step: Path) -> None:
    (step / "policy/weights/__1_0.distcp").write_bytes(b"wei")


def names(machine: Machine) -> list[str]:
    return sorted(os.listdir(machine.directory / "checkpoints"))


def test_an_incomplete_step_is_set_aside_and_the_run_goes_back(machine: Machine) -> None:
    files.nemo_rl(machine.directory, 10)
    for step in (20, 30):
        cut(files.nemo_rl(machine.directory, step))
    started = launch(machine)
    assert started.wait() == 0, started.output
    assert names(machine) == ["incomplete_step_20", "incomplete_step_30", "step_10"]
    assert f"step 30 is not complete ({CUT})" in started.output
    aside = machine.directory / "checkpoints/incomplete_step_30"
    assert f"its folder is {aside} now" in started.output
    assert started.output.index("goes back to step 10") < started.output.index("the trainer runs")
    assert (aside / "policy/weights/__1_0.distcp").read_bytes() == b"wei"


def test_a_complete_step_is_left_alone(machine: Machine) -> None:
    cut(files.nemo_rl(machine.directory, 10))
    files.nemo_rl(machine.directory, 20)
    assert launch(machine).wait() == 0
    assert names(machine) == ["step_10", "step_20"]


@pytest.mark.parametrize(("framework", "part"), [("nemo-rl", "policy/weights"), ("verl", "actor")])
def test_weights_in_an_unknown_format_do_not_stop_the_run(machine: Machine, framework: str, part: str) -> None:
    """A newer framework may save in another way, and its trainer knows better."""
    step = files.verl(machine.directory, 10) if framework == "verl" else files.nemo_rl(machine.directory, 10)
    shutil.rmtree(step / part)
    (step / part / "new").mkdir(parents=True)
    (step / part / "new/weights.bin").write_bytes(b"weights")
    (machine.directory / "checkpoints/latest_checkpointed_iteration.txt").write_text("10")
    started = launch(machine, framework)
    assert started.wait() == 0, started.output
    assert f"warning: {step} has weights of an unknown format: not checked whether it is complete" in started.output
    assert step.is_dir()


def test_each_retry_checks_the_steps_again(machine: Machine) -> None:
    """The trainer that failed may have left the step behind."""
    for step in (10, 20, 30):
        files.nemo_rl(machine.directory, step)
    (machine.directory / "checkpoints/incomplete_step_20/of-an-earlier-start").mkdir(parents=True)
    resumed = machine.tmp / "resumed"
    words = ["python3", "-c", TRAINER, str(machine.directory / "checkpoints"), str(resumed)]
    started = launch(machine, command=words, retries=3)
    assert started.wait() == 1
    assert resumed.read_text().split() == ["30", "20", "10"]
    assert names(machine) == ["incomplete_step_20", "incomplete_step_30", "step_10"]
    assert f"mv {machine.directory}/checkpoints/step_10 " in started.last


def test_without_a_complete_step_nothing_is_started_or_moved(machine: Machine) -> None:
    """Before the GPUs are taken: a run whose workers never come is refused at once."""
    for step in (10, 20):
        cut(files.nemo_rl(machine.directory, step))
    started = launch(machine, workers={"nodes": 2, "gpus": 8, "timeoutSeconds": 600}, retries=3)
    assert started.wait() == 1
    folder = machine.directory / "checkpoints"
    last = started.last
    assert f"{folder}/step_20 is not complete ({CUT})" in last
    assert f"start at step 0: mv {folder}/step_20 {folder}/incomplete_step_20; then raise job.attempt" in last
    assert "retry" not in started.output
    assert names(machine) == ["step_10", "step_20"]


@pytest.mark.parametrize(("nodes", "gpus", "started"), [(1, 2, True), (2, 1, True), (2, 2, False), (None, 8, True)])
def test_a_verl_step_can_only_be_resumed_on_as_many_gpus_as_saved_it(
    machine: Machine, nodes: int | None, gpus: int, *, started: bool
) -> None:
    """Each rank of FSDP loads the file with its number and the number of all: others would wait for GPUs and fail."""
    step = files.verl(machine.directory, 10, ranks=2)
    (machine.directory / "checkpoints/latest_checkpointed_iteration.txt").write_text("10")
    launched = launch(machine, "verl", config={"trainer": {"nnodes": nodes, "n_gpus_per_node": gpus}})
    assert (launched.wait() == 0) is started, launched.output
    if not started:
        assert f"{step} was saved by 2 GPUs, and this attempt has 4: " in launched.last


@pytest.mark.parametrize(("mode", "tracked"), [("auto", "5"), (None, "5"), ("disable", "10"), ("resume_path", "10")])
def test_verls_tracker_is_set_back_to_the_last_complete_step(machine: Machine, mode: str | None, tracked: str) -> None:
    files.verl(machine.directory, 5)
    (files.verl(machine.directory, 10) / "data.pt").unlink()
    tracker = machine.directory / "checkpoints/latest_checkpointed_iteration.txt"
    tracker.write_text("10")
    trainer = {"resume_mode": mode} if mode else {}
    started = launch(machine, "verl", config={"trainer": trainer})
    assert started.wait() == 0, started.output
    assert tracker.read_text() == tracked
    assert names(machine) == ["global_step_10", "global_step_5", tracker.name]
    assert ("latest_checkpointed_iteration.txt names step 5 now" in started.output) == (tracked == "5")


def test_a_verl_run_without_a_complete_step_is_rejected(machine: Machine) -> None:
    step = files.verl(machine.directory, 10)
    (step / "data.pt").unlink()
    (machine.directory / "checkpoints/latest_checkpointed_iteration.txt").write_text("10")
    started = launch(machine, "verl")
    assert started.wait() == 1
    assert f"mv {step} " in started.last


def test_a_step_that_was_set_aside_is_listed_as_incomplete(machine: Machine) -> None:
    import checkpoints

    files.nemo_rl(machine.directory, 10, value=0.5)
    files.nemo_rl(machine.directory, 20, value=0.9).rename(machine.directory / "checkpoints/incomplete_step_20")
    whole, aside = checkpoints.list_checkpoints(machine.directory)
    assert (whole.resume, aside.resume, aside.complete) == (True, False, False)
    assert aside.reason == "set aside before a start, because it was not complete: delete it to free the disk"
    assert json.loads((machine.directory / "checkpoints/step_10/training_info.json").read_text())["total_steps"] == 10
