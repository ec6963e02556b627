"""Trajectories of each framework and version, read as they lie in a run directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import PROGRAMS

from .tasks import run_here

PROGRAM = PROGRAMS["samples"]
REWARDS = [1.0, 0.0, 0.0, 1.0, 0.5, 0.0]


def nemo_rl(index: int, reward: float, version: str = "v0.6.0") -> dict[str, Any]:
    """Return a row as NeMo RL writes it: a batch of one sample, each value in a list."""
    row: dict[str, Any] = {
        "content": [[f"<user>Question {index}?<model>", f"Answer {index}.", "Environment: done"]],
        "rewards": [reward],
        "input_lengths": [7],
        "generation_logprobs": [[0.0] * 7],
        "prev_logprobs": [[0.0] * 7],
    }
    if version >= "v0.6.0":
        row |= {"token_ids": [[1] * 7], "token_loss_mask": [[0] * 7], "advantages": [[0.1] * 7]}
    return {**row, "idx": index}


def verl(index: int, reward: float) -> dict[str, Any]:
    row = {"input": f"user Question {index}?", "output": f"Answer {index}.", "gts": "2", "score": reward, "step": 3}
    return {**row, "acc": reward > 0}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def steps(folder: Path, numbers: range, version: str = "v0.6.0") -> None:
    for number in numbers:
        rows = [nemo_rl(index, reward, version) for index, reward in enumerate(REWARDS)]
        write(folder / f"train_data_step{number}.jsonl", rows)


def piped(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the program as `grpo samples` runs it in a pod: from stdin, without site packages."""
    command = [sys.executable, "-I", "-", *map(str, words)]
    text = PROGRAM.read_text(encoding="utf-8")
    return subprocess.run(command, check=False, capture_output=True, input=text, encoding="utf-8", timeout=120)


def found(*words: object) -> dict[str, Any]:
    done = run_here("samples", *words, "--json")
    assert done.code == 0, done.errors
    result: dict[str, Any] = json.loads(done.output)
    return result


def refused(text: str, *words: object, code: int = 1) -> None:
    done = run_here("samples", *words)
    assert done.code == code, done.output
    assert text in done.errors


@pytest.mark.parametrize(("version", "first"), [("v0.4.0", 0), ("v0.5.0", 1), ("v0.6.0", 1), ("v0.7.0", 1)])
def test_steps_are_counted_from_one_in_every_version(tmp_path: Path, version: str, first: int) -> None:
    steps(tmp_path / "logs/exp_001", range(first, first + 3), version)
    last = found(tmp_path)
    assert (last["step"], Path(last["file"]).name) == (3, f"train_data_step{first + 2}.jsonl")
    assert Path(found(tmp_path, "--step", 1)["file"]).name == f"train_data_step{first}.jsonl"
    refused("step 4 has no trajectories, steps 1 to 3 have", tmp_path, "--step", 4)


def test_a_resumed_run_is_read_from_where_it_resumed(tmp_path: Path) -> None:
    steps(tmp_path / "logs/exp_001", range(1, 13))
    steps(tmp_path / "logs/exp_002", range(5, 7))
    steps(tmp_path / "logs/exp_010", range(6, 8))
    (tmp_path / "logs/exp_011").mkdir()
    for step, folder in ((4, "exp_001"), (5, "exp_002"), (6, "exp_010"), (12, "exp_001")):
        assert Path(found(tmp_path, "--step", step)["file"]).parent.name == folder
    last = found(tmp_path)
    assert (last["step"], Path(last["file"]).parent.name) == (7, "exp_010")


def test_a_zero_based_run_stays_zero_based_after_a_resume(tmp_path: Path) -> None:
    steps(tmp_path / "logs/exp_001", range(4), "v0.4.0")
    steps(tmp_path / "logs/exp_002", range(2, 6), "v0.4.0")
    last = found(tmp_path)
    assert (last["step"], Path(last["file"]).name) == (6, "train_data_step5.jsonl")


@pytest.mark.parametrize("folder", ["logs", "logs/exp_001"])
def test_a_log_folder_is_accepted_in_place_of_the_run(tmp_path: Path, folder: str) -> None:
    steps(tmp_path / "logs/exp_001", range(1, 3))
    assert found(tmp_path / folder)["step"] == 2


def test_samples_are_split_into_parts_and_summarised(tmp_path: Path) -> None:
    steps(tmp_path / "logs/exp_001", range(1, 2))
    result = found(tmp_path, "--count", 1)
    assert result["shown"] == [
        {
            "index": 0,
            "prompt": "<user>Question 0?<model>",
            "generation": "Answer 0.",
            "environment": "Environment: done",
            "reward": 1.0,
        }
    ]
    assert (result["samples"], result["damaged"], result["min"], result["max"]) == (6, 0, 0.0, 1.0)
    assert result["mean"] == pytest.approx(2.5 / 6)
    assert result["standardDeviation"] == pytest.approx((2.25 / 6 - (2.5 / 6) ** 2) ** 0.5)


@pytest.mark.parametrize(
    ("option", "indices"),
    [([], [0, 1, 2]), (["--worst"], [1, 2, 5]), (["--best"], [0, 3, 4])],
    ids=["", "worst", "best"],
)
def test_options_choose_the_samples_shown(tmp_path: Path, option: list[str], indices: list[int]) -> None:
    steps(tmp_path / "logs/exp_001", range(1, 2))
    assert [one["index"] for one in found(tmp_path, "--count", 3, *option)["shown"]] == indices


@pytest.mark.parametrize(
    ("content", "prompt", "generation", "environment"),
    [
        ([["p", "g", "e"]], "p", "g", "e"),
        ([["system", "p", "g", "e"]], "system\np", "g", "e"),
        ([["p", "g1", "e1", "g2", "e2"]], "p\ng1\ne1", "g2", "e2"),
        ([["p", "g"]], "p", "g", ""),
        (["g"], "", "g", ""),
        ([["p", "g", ""]], "p", "g", ""),
    ],
)
def test_content_is_split_into_parts_by_its_order(
    tmp_path: Path, content: list[Any], prompt: str, generation: str, environment: str
) -> None:
    write(tmp_path / "logs/exp_001/train_data_step1.jsonl", [{**nemo_rl(0, 1.0), "content": content}])
    (shown,) = found(tmp_path)["shown"]
    assert (shown["prompt"], shown["generation"], shown["environment"]) == (prompt, generation, environment)


def test_filtered_rewards_replace_a_rows_rewards(tmp_path: Path) -> None:
    row = {**nemo_rl(0, 0.0), "filtered_rewards": [1.0]}
    write(tmp_path / "logs/exp_001/train_data_step1.jsonl", [row])
    assert found(tmp_path)["mean"] == 1.0


@pytest.mark.parametrize("where", ["configured", "rollouts"])
def test_verl_rollouts_are_read_from_either_folder(tmp_path: Path, where: str) -> None:
    run = tmp_path / "run"
    folder = tmp_path / "elsewhere" if where == "configured" else run / "rollouts"
    (run / "attempts/2").mkdir(parents=True)
    (run / "attempts/10").mkdir()
    if where == "configured":
        config = json.dumps({"trainer": {"rollout_data_dir": str(folder)}}, indent=2)
        (run / "attempts/2/config.yaml").write_text(config)
    for step in (3, 12):
        write(folder / f"{step}.jsonl", [verl(index, reward) for index, reward in enumerate(REWARDS)])
    assert found(run)["step"] == 12
    first = found(run, "--step", 3)["shown"][0]
    assert (first["prompt"], first["generation"], first["reward"]) == ("user Question 0?", "Answer 0.", 1.0)


def test_a_truncated_line_is_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "logs/exp_001/train_data_step1.jsonl"
    write(path, [nemo_rl(0, 1.0), nemo_rl(1, 1.0)])
    with path.open("a") as file:
        file.write('[]\n{"content": [["p", "g", "e"]]}\n\n{"content": [["p", "g"')
    result = found(tmp_path)
    assert (result["samples"], result["damaged"]) == (2, 3)
    assert "2 samples: reward 1.0000 +- 0.0000 (1 to 1), 3 lines cannot be read" in run_here("samples", tmp_path).output


@pytest.mark.full
def test_a_file_larger_than_memory_is_streamed(tmp_path: Path) -> None:
    path, padding = tmp_path / "logs/exp_001/train_data_step1.jsonl", "x" * 1_000_000
    write(path, [{**nemo_rl(index, 0.5), "token_ids": padding} for index in range(100)])
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (90 << 20,) * 2); "
    program = (
        f"{limit}sys.argv = ['samples.py', {str(tmp_path)!r}, '--best']; exec(compile(sys.stdin.read(), 's', 'exec'))"
    )
    text = PROGRAM.read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], check=False, capture_output=True, input=text, text=True
    )
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size > 90 << 20
    assert "100 samples: reward 0.5000" in done.stdout


def test_text_output_is_readable_and_escapes_control_characters(tmp_path: Path) -> None:
    row = {**nemo_rl(0, 0.25), "content": [["Grüße?", "\x1b[2J\x07ja\r\n", ""]]}
    write(tmp_path / "logs/exp_001/train_data_step1.jsonl", [row])
    assert piped(tmp_path).stdout == (
        "=== sample 0, reward 0.25\n--- prompt\nGrüße?\n--- generation\n\\x1b[2J\\x07ja\\x0d\n\n"
        "=== step 1, 1 samples: reward 0.2500 +- 0.0000 (0.25 to 0.25)\n"
        f"{tmp_path}/logs/exp_001/train_data_step1.jsonl\n"
    )


def test_missing_samples_are_reported(tmp_path: Path) -> None:
    refused(f"{tmp_path / 'x'} is no directory: name the run directory, <mountPath>/runs/", tmp_path / "x", code=2)
    refused("has no trajectories", tmp_path)
    write(tmp_path / "logs/exp_001/train_data_step1.jsonl", [{}])
    refused("contains no sample (1 damaged lines)", tmp_path)
    assert run_here("samples", tmp_path, "--step", "0").code == 2
    assert run_here("samples", tmp_path, "--count", "0").code == 2
    done = piped(tmp_path)
    assert (done.returncode, "contains no sample" in done.stderr, "Traceback" in done.stderr) == (1, True, False)
