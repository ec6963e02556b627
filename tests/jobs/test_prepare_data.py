"""Data sets in the form of GSM8K, prepared; and what the judges of NeMo RL and verl make of the result."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import thin
from tests.processor import limited

from . import judges
from .tasks import GSM8K, Done, load_task, run_task, run_task_here, solutions, write_lines

COMMIT = "e53f048856ff4f594e959d75785d2c2d37b678ee"
NUMBERS = [number for _, _, number in GSM8K]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A directory as the data set's own repository has it: JSON lines, one file a split."""
    write_lines(tmp_path / "raw/train.jsonl", solutions())
    write_lines(tmp_path / "raw/test.jsonl", solutions()[:3])
    return tmp_path / "raw"


def prepare(
    tmp_path: Path, source: Path | str, ending: str = "jsonl", *, own_process: bool = False, **changes: Any
) -> Done:
    entry = {"repository": str(source), "subset": "main", "question": "question", "answer": "answer", **changes}
    task = {"directory": str(tmp_path / "datasets"), "format": ending, "datasets": {"gsm8k": entry}}
    start = run_task if own_process else run_task_here
    return start("prepare_data", task, tmp_path, HF_HOME=str(tmp_path / "hf"))


def lines(tmp_path: Path, split: str = "train") -> list[dict[str, Any]]:
    text = (tmp_path / f"datasets/gsm8k/{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def parquet(tmp_path: Path, split: str = "train") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(tmp_path / f"datasets/gsm8k/{split}.parquet").to_pylist()
    return rows


@pytest.mark.parametrize(("question", "answer", "number"), GSM8K)
def test_the_number_after_the_last_marker_is_the_answer(question: str, answer: str, number: str) -> None:
    assert load_task("prepare_data").final_answer(answer) == number


@pytest.mark.parametrize(
    "answer",
    ["72", "#### ", "#### seventy", "#### 72 pens", "#### 7 2", "#### 1,2", "####\n#### x", "#### --5", "#### $", None],
)
def test_a_non_numeric_answer_is_not_an_answer(answer: str | None) -> None:
    assert load_task("prepare_data").final_answer(answer) == ""


@pytest.mark.parametrize(
    ("answer", "number"), [("#### 18 dollars", "18"), ("#### 48 + 24 = 72", "72"), ("####\n72", "72")]
)
def test_the_prepared_answer_matches_what_the_rewards_parse(answer: str, number: str) -> None:
    assert load_task("prepare_data").final_answer(answer) == number


def test_an_answer_is_parsed_in_linear_time() -> None:
    program = load_task("prepare_data")
    with limited():
        for space in (" " * 400, " " * 200_000, "\t\n" * 100_000):
            for end in ("", "x", "1 " * 200):
                assert program.final_answer(f"####{space}{end}") == ""
            assert program.final_answer(f"####{space}72{space}.{space}") == "72"


def test_json_lines_are_written_for_nemo_rl(tmp_path: Path, raw: Path) -> None:
    prepare(tmp_path, raw, own_process=True).succeeds()
    assert lines(tmp_path) == [
        {"question": row["question"], "answer": n, "task_name": "math"}
        for row, n in zip(solutions(), NUMBERS, strict=True)
    ]
    assert [row["answer"] for row in lines(tmp_path, "test")] == NUMBERS[:3]


def test_parquet_is_written_for_verl(tmp_path: Path, raw: Path) -> None:
    prepare(tmp_path, raw, "parquet").succeeds()
    rows = parquet(tmp_path)
    assert [row["reward_model"] for row in rows] == [{"style": "rule", "ground_truth": n} for n in NUMBERS]
    assert {row["data_source"] for row in rows} == {"openai/gsm8k"}
    assert [list(row) for row in rows[:1]] == [["data_source", "prompt", "ability", "reward_model", "extra_info"]]
    assert [row["extra_info"]["index"] for row in rows] == list(range(len(GSM8K)))
    assert rows[1]["extra_info"]["split"] == "train"
    assert rows[1]["extra_info"]["answer"] == GSM8K[1][1]
    (message,) = rows[0]["prompt"]
    assert message["role"] == "user"
    assert message["content"].startswith(GSM8K[0][0])
    assert "####" in message["content"].removeprefix(GSM8K[0][0])


def hub_snapshot(home: Path, *, place: str = "main") -> Path:
    """Lay a data set into the cache as the Hub's client does: a snapshot of links, and a reference to it."""
    folder = home / "hub/datasets--openai--gsm8k"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(COMMIT)
    (folder / "blobs").mkdir()
    target = folder / "snapshots" / COMMIT / place
    target.mkdir(parents=True)
    for split in ("train", "test"):
        pq.write_table(pa.Table.from_pylist(solutions()), folder / "blobs" / split)
        (target / f"{split}-00000-of-00001.parquet").symlink_to(os.path.relpath(folder / "blobs" / split, target))
    return target


def test_the_fetched_snapshot_is_read(tmp_path: Path) -> None:
    hub_snapshot(tmp_path / "hf")
    prepare(tmp_path, "openai/gsm8k").succeeds()
    assert [row["answer"] for row in lines(tmp_path)] == NUMBERS
    record = json.loads((tmp_path / "datasets/gsm8k/prepared.json").read_text())
    assert record["request"]["origin"] == {"repository": "openai/gsm8k", "revision": COMMIT}
    assert record["splits"]["train"]["rows"] == len(GSM8K)
    assert re.fullmatch("[0-9a-f]{64}", record["splits"]["train"]["sha256"])


@pytest.mark.parametrize("place", ["data", "."])
def test_a_data_set_without_subsets_is_found_in_data_or_at_the_top_level(tmp_path: Path, place: str) -> None:
    hub_snapshot(tmp_path / "hf", place=place)
    prepare(tmp_path, "openai/gsm8k", subset="").succeeds()
    assert [row["answer"] for row in lines(tmp_path, "test")] == NUMBERS


def test_a_missing_subset_is_never_replaced_by_another(tmp_path: Path) -> None:
    hub_snapshot(tmp_path / "hf", place="data")
    said = prepare(tmp_path, "openai/gsm8k", subset="socratic").fails()
    assert "no train, validation or test file (.parquet or .jsonl) in socratic or data/socratic" in said


def test_several_files_of_one_split_are_joined(tmp_path: Path) -> None:
    target = hub_snapshot(tmp_path / "hf")
    (target / "train-00001-of-00002.parquet").symlink_to((target / "train-00000-of-00001.parquet").readlink())
    prepare(tmp_path, "openai/gsm8k").succeeds()
    assert [row["answer"] for row in lines(tmp_path)] == NUMBERS * 2


def test_column_names_can_be_configured(tmp_path: Path) -> None:
    write_lines(tmp_path / "raw/train.jsonl", [{"problem": "1+1?", "solution": "#### 2", "level": 1}])
    prepare(tmp_path, tmp_path / "raw", question="problem", answer="solution").succeeds()
    assert lines(tmp_path) == [{"question": "1+1?", "answer": "2", "task_name": "math"}]
    (tmp_path / "datasets/gsm8k/prepared.json").unlink()
    (tmp_path / "datasets/gsm8k/train.jsonl").unlink()
    said = prepare(tmp_path, tmp_path / "raw", question="problem").fails()
    assert "has no column answer, it has level, problem, solution" in said


def test_rows_without_an_answer_are_rejected_with_their_number(tmp_path: Path, raw: Path) -> None:
    rows = [*solutions(), {"question": "Why?", "answer": "Nobody knows."}, {"question": "", "answer": "#### 1"}]
    write_lines(raw / "train.jsonl", rows)
    said = prepare(tmp_path, raw).fails()
    assert "2 of 10 rows" in said
    assert "row 8: 'Nobody knows.'; row 9: 'no question'" in said
    assert not (tmp_path / "datasets").exists()


def test_a_missing_source_error_says_what_to_do(tmp_path: Path) -> None:
    assert "openai/gsm8k is not in the Hugging Face cache" in prepare(tmp_path, "openai/gsm8k").fails()
    assert "/nowhere does not exist: set a directory on a mounted volume" in prepare(tmp_path, "/nowhere").fails()
    (tmp_path / "empty").mkdir()
    assert "has no train, validation or test file" in prepare(tmp_path, tmp_path / "empty").fails()
    (tmp_path / "empty/train.parquet").write_text("version https://git-lfs.github.com/spec/v1")
    assert "train.parquet is not a Parquet file" in prepare(tmp_path, tmp_path / "empty").fails()
    write_lines(tmp_path / "torn/train.jsonl", solutions())
    with (tmp_path / "torn/train.jsonl").open("a") as file:
        file.write('{"question": "hal')
    assert "train.jsonl, line 9: expected a JSON object on each line" in prepare(tmp_path, tmp_path / "torn").fails()


def test_a_second_run_reuses_matching_data_and_redoes_truncated_files(tmp_path: Path, raw: Path) -> None:
    prepare(tmp_path, raw).succeeds()
    file = tmp_path / "datasets/gsm8k/train.jsonl"
    before = file.stat()
    assert f"is prepared already ({3} rows test, {len(GSM8K)} rows train)" in prepare(tmp_path, raw).succeeds()
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    # A file that was cut short is made again.
    file.write_text("")
    prepare(tmp_path, raw).succeeds()
    assert len(lines(tmp_path)) == len(GSM8K)


def test_valid_data_from_a_different_source_is_not_replaced(tmp_path: Path, raw: Path) -> None:
    """A run that resumes would go on with other rows."""
    prepare(tmp_path, raw).succeeds()
    write_lines(raw / "train.jsonl", solutions()[:2])
    said = prepare(tmp_path, raw).fails()
    assert "has data prepared with another origin" in said
    assert "choose another name under job.prepareData" in said
    assert len(lines(tmp_path)) == len(GSM8K)


def test_an_interrupted_run_is_not_taken_for_a_complete_one(tmp_path: Path, raw: Path) -> None:
    prepare(tmp_path, raw).succeeds()
    record = tmp_path / "datasets/gsm8k/prepared.json"
    record.write_text(json.dumps({"request": json.loads(record.read_text())["request"]}))
    (tmp_path / "datasets/gsm8k/test.jsonl").unlink()
    prepare(tmp_path, raw).succeeds()
    assert len(lines(tmp_path, "test")) == 3


def test_foreign_files_are_not_overwritten(tmp_path: Path, raw: Path) -> None:
    write_lines(tmp_path / "datasets/gsm8k/train.jsonl", [{"question": "mine", "answer": "1"}])
    assert "was not written by this task: move it away" in prepare(tmp_path, raw).fails()
    assert lines(tmp_path) == [{"question": "mine", "answer": "1"}]


@pytest.fixture(scope="module")
def judge() -> judges.Judge:
    return judges.nemo_rl()


RESPONSES = ["So it is \\boxed{%s}.", "<think>Hm.</think> The answer is %s.", "Easy.\n#### %s"]


@pytest.mark.parametrize("response", thin(list(RESPONSES), 3))
def test_nemo_rl_rewards_only_correct_responses(tmp_path: Path, raw: Path, judge: judges.Judge, response: str) -> None:
    prepare(tmp_path, raw).succeeds()
    rows = lines(tmp_path)
    assert [judge(row["answer"], response % row["answer"]) for row in rows] == [1.0] * len(GSM8K)
    assert [judge(row["answer"], response % f"{float(row['answer']) + 1:g}") for row in rows] == [0.0] * len(GSM8K)


@pytest.mark.parametrize("response", RESPONSES)
def test_full_solutions_as_expected_answers_earn_no_reward(judge: judges.Judge, response: str) -> None:
    """What the preparation is for: the published set-up gave the whole solution to this judge."""
    plain = [(row["answer"], number) for row, number in zip(solutions(), NUMBERS, strict=True)]
    assert [judge(answer, response % number) for answer, number in plain] == [0.0] * len(plain)


def test_verl_rewards_a_response_that_follows_the_prompt(tmp_path: Path, raw: Path) -> None:
    prepare(tmp_path, raw, "parquet").succeeds()
    judge = judges.verl_gsm8k()
    golds = [row["reward_model"]["ground_truth"] for row in parquet(tmp_path)]
    assert [judge(gold, f"Let me see.\n#### {gold}") for gold in golds] == [1.0] * len(golds)
    assert [judge(gold, f"Let me see.\n#### {gold}1") for gold in golds] == [0.0] * len(golds)
    assert [judge(gold, f"The answer is {gold}.") for gold in golds] == [0.0] * len(golds)
    # A large number, written as people write it.
    assert judge(golds[1], "#### 1,080") == 1.0
