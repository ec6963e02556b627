"""Files that Weights & Biases itself has written offline, by the names of both frameworks."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo.report.runs import run
from grpo.runlog import events, polling, wandb_files
from grpo.runlog.shared import Step, Validation
from postrender.errors import InputError
from tests.runlog import logs

# Writes each line of stdin, which is a number and its metrics, as one step: both frameworks do it in this way.
WRITER = """\
import json, os, sys
os.environ["WANDB_MODE"] = "offline"
import wandb
settings = wandb.Settings(silent=True, disable_git=True, console="off", x_disable_stats=True, x_disable_meta=True)
run = wandb.init(project="grpo", dir=sys.argv[1], settings=settings)
for line in sys.stdin:
    step, metrics = json.loads(line)
    run.log(metrics, step=step)
    print(step, flush=True)
run.finish()
"""
NEMO_RL = {
    "train/loss": 0.5,
    "train/reward": 0.25,
    "train/grad_norm": 0.125,
    "train/kl_penalty": 0.0625,
    "train/approx_entropy": 0.5,
    "train/mean_gen_tokens_per_sample": 200.25,
    "timing/train/total_step_time": 10.0,
    "timing/train/policy_training": 5.0,
    "performance/tokens_per_sec_per_gpu": 640.0,
    # What no step has a measure for, longer than a block of the file.
    "generations": "text " * 10000,
}


def start(folder: Path) -> subprocess.Popen[str]:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "WANDB_DIR": str(folder), "HOME": str(folder)}
    command = [sys.executable, "-c", WRITER, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=environment, **pipes)  # type: ignore[call-overload,no-any-return]


def write(folder: Path, rows: list[tuple[int, dict[str, object]]]) -> Path:
    """Write a run and return its file."""
    with start(folder) as process:
        process.communicate("".join(json.dumps(row) + "\n" for row in rows), timeout=120)
    assert process.returncode == 0
    (file,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    return file


@pytest.fixture(scope="module")
def nemo_rl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[tuple[int, dict[str, object]]] = [
        (0, {"validation/accuracy": 0.125, "timing/validation/total_validation_time": 12.0}),
        (1, NEMO_RL),
        # The monitor adds its readings to the row that is open, and those of one GPU overwrite each other.
        (2, {**NEMO_RL, "train/reward": 0.5, "ray/node.0.gpu.0.mem_gb": 60.5, "ray/node.1.gpu.7.mem_gb": 70.25}),
        # Two calls for one step are one row.
        (2, {"validation/accuracy": 0.75}),
        (3, {**NEMO_RL, "train/loss": math.nan, "train/grad_norm": math.inf}),
        (4, {"ray/node.0.gpu.0.mem_gb": 50.0, "ray/ray_step": 300}),
    ]
    return write(tmp_path_factory.mktemp("nemo-rl"), rows)


@pytest.fixture(scope="module")
def verl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("verl"), [(step, {**logs.VERL}) for step in (1, 2)])


def read(path: Path) -> list[object]:
    return [found.event for batch in events.read(str(path), follow=False) for found in batch]


def test_every_nemo_rl_measure_is_read(nemo_rl: Path) -> None:
    found = read(nemo_rl)
    assert found[0] == Validation(0, 0.125, None, 12.0)
    assert found[1] == Step(
        1,
        reward=0.25,
        loss=0.5,
        grad_norm=0.125,
        kl=0.0625,
        entropy=0.5,
        length=200.25,
        seconds=10.0,
        phases={"training": 5.0},
        tokens_per_second_per_gpu=640.0,
    )
    assert found[2] == Validation(2, 0.75)
    assert [each.memory_gib for each in found if isinstance(each, Step)] == [None, 70.25, None]
    last = found[-1]
    assert isinstance(last, Step)
    assert (last.number, str(last.loss), str(last.grad_norm)) == (3, "nan", "inf")


@pytest.mark.full
def test_verls_measures_match_those_on_its_console(verl: Path, tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    console.write_text(logs.verl_run([logs.VERL] * 2))
    steps = [{**vars(each), "line": 0} for each in read(verl) if isinstance(each, Step)]
    assert steps == [{**vars(each), "line": 0} for each in read(console) if isinstance(each, Step)]
    assert len(steps) == 2


def test_a_report_reads_a_runs_folder(nemo_rl: Path) -> None:
    (found,) = run.read_all([str(nemo_rl.parents[1])])
    assert ([each.number for each in found.steps], len(found.validations)) == ([1, 2, 3], 2)
    assert [finding.rule for finding in found.findings] == ["run/not-a-number"]


@pytest.mark.full
def test_the_latest_start_of_the_trainer_wins(nemo_rl: Path, verl: Path, tmp_path: Path) -> None:
    again = write(tmp_path / "logs/exp_002", [(2, {**NEMO_RL, "train/reward": 1.0}), (4, NEMO_RL)])
    shutil.copytree(nemo_rl.parent, tmp_path / "logs/exp_001/wandb/run-20200101_000000-older")
    rewards = {each.number: each.reward for each in read(tmp_path) if isinstance(each, Step)}
    assert rewards == {1: 0.25, 2: 1.0, 3: 0.25, 4: 0.25}
    assert wandb_files.files(str(tmp_path))[-1] == str(again)


@pytest.mark.full
def test_a_run_is_followed_while_it_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "PAUSE_SECONDS", 0.2)
    with start(tmp_path) as process:
        assert process.stdin
        assert process.stdout
        found: Iterator[list[events.Found]] = iter(())
        for step in range(1, 5):
            process.stdin.write(json.dumps((step, NEMO_RL)) + "\n")
            process.stdin.flush()
            process.stdout.readline()
        (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
        found = events.read(str(file), follow=True)
        numbers: list[int] = []
        end = time.monotonic() + 120
        # W&B keeps a step until the next one begins, and the newest one may still change.
        while 2 not in numbers and time.monotonic() < end:
            numbers += [each.event.number for each in next(found) if isinstance(each.event, Step)]
        assert numbers[:2] == [1, 2]
        process.communicate(timeout=120)
        while 4 not in numbers and time.monotonic() < end:
            numbers += [each.event.number for each in next(found) if isinstance(each.event, Step)]
        assert numbers == [1, 2, 3, 4]


def test_a_second_poll_reads_only_new_records(nemo_rl: Path, tmp_path: Path) -> None:
    data = nemo_rl.read_bytes()
    path = tmp_path / "run-a.wandb"
    file = wandb_files.File(str(path))
    # A step of this file is longer than a block, and most looks end inside a record.
    for end in range(0, len(data), 997):
        path.write_bytes(data[:end])
        file.look()
    path.write_bytes(data)
    file.look()
    whole = wandb_files.File(str(nemo_rl))
    whole.look()
    assert file.rows == whole.rows
    # What has been read is not read again.
    path.write_bytes(bytes(len(data)))
    file.look()
    assert file.rows == whole.rows


@pytest.mark.parametrize("cut", [1, 100, 60_000])
def test_a_truncated_file_yields_the_steps_before_the_cut(nemo_rl: Path, tmp_path: Path, cut: int) -> None:
    data = nemo_rl.read_bytes()
    path = tmp_path / "run-a.wandb"
    path.write_bytes(data[:-cut])
    numbers = [each.number for each in read(path) if isinstance(each, Step)]
    assert numbers == [1, 2, 3][: len(numbers)]
    assert numbers


def test_reading_stops_at_a_damaged_record(nemo_rl: Path, tmp_path: Path) -> None:
    data = bytearray(nemo_rl.read_bytes())
    data[data.index(b"timing/train/policy_training", len(data) // 2)] ^= 1
    path = tmp_path / "run-a.wandb"
    path.write_bytes(data)
    assert len(read(path)) < len(read(nemo_rl))


@pytest.mark.parametrize("data", [b"", b":W&B\xe1\xbe\x00", b"no such file of theirs" * 100, bytes(1 << 17)])
def test_a_file_without_steps_is_rejected(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run-a.wandb"
    path.write_bytes(data)
    with pytest.raises(InputError, match="it has no step of NeMo RL's GRPO or of verl"):
        read(path)
