"""`grpo lint --data` compares the first rows of the user's data with what this run reads."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.cli import main as cli
from grpo.lint.data import samples
from grpo.lint.data.readers import Chats, Reader, Responses, Source
from grpo.lint.linter import described_run
from grpo.problems.reading import READING
from postrender import textfile
from postrender.errors import InputError
from postrender.values import merge
from tests.conftest import ROOT, SITE, stack_files

Row = dict[str, Any]
# Findings as (rule, severity, line), the whole report, and the exit code.
Judged = tuple[list[tuple[str, str, int]], str, int]
Judge = Callable[..., Judged]

SOLUTION = "Natalia sold 24 clips in May.\n24 and 48 are 72.\n#### 72"
PROSE = "First we count the pencils of one box.\nThere are six boxes, so we take six times as many of them."
VERL: Row = {
    "data_source": "openai/gsm8k",
    "prompt": [{"role": "user", "content": "1 + 1?"}],
    "reward_model": {"style": "rule", "ground_truth": "2"},
    "extra_info": {"index": 0},
}
# Files with rows that are wrong in several ways have it, too.
TYPES = "data/column-types"
SMALL = {
    "nemo-rl": "job: {config: {grpo: {num_prompts_per_step: 1, max_num_steps: 1}}}\n",
    "verl": "job: {config: {data: {train_batch_size: 1}}}\n",
}


@pytest.fixture
def judge(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Judge:
    """Write the rows of each file, lint them with a few values, and return what is said of the data."""
    monkeypatch.chdir(tmp_path)

    def run(
        values: str, recipe: str = "gemma3-27b-gsm8k", more: Sequence[str] = (), **files: Sequence[Row] | str
    ) -> Judged:
        Path("mine.yaml").write_text(values)
        # Most of these files have one row.
        Path("small.yaml").write_text(SMALL["verl" if "verl" in recipe else "nemo-rl"])
        words = ["lint", "--no-render", "--format", "json"]
        for path in (*stack_files("b200", recipe)[:2], SITE, Path("small.yaml"), Path("mine.yaml")):
            words += ["-f", str(path)]
        for role, rows in files.items():
            name = rows if isinstance(rows, str) else f"{role}.jsonl"
            if not isinstance(rows, str):
                Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            words += ["--data", f"{role}={name}"]
        code = cli.main([*words, *more])
        out, err = capsys.readouterr()
        found = json.loads(out)["findings"] if out else []
        of_data = [each for each in found if each["rule"].startswith("data/") or "not judged" in each["what"]]
        told = [(each["rule"], each["severity"], each["line"]) for each in of_data]
        return told, json.dumps(of_data) + err, code

    return run


def nemo_rl(train: str = "", validation: str = "", rewards: str = "") -> str:
    """Return values of a NeMo RL run on files of the user's own."""
    own = "dataset_name: ResponseDataset, data_path: /data/own"
    validates = f"{{{own}/test.jsonl, split: null, {validation}}}"
    text = f"job: {{config: {{data: {{train: {{{own}/train.jsonl, {train}}}, validation: {validates}}}}}"
    return f"{text}, rewards: {{{rewards}}}}}\n"


VERL_VALUES = "job: {config: {data: {train_files: /data/own/train.parquet, val_files: /data/own/test.parquet}}}\n"


def verl(judge: Judge, *rows: Row, values: str = VERL_VALUES) -> Judged:
    return judge(values, "qwen2.5-32b-gsm8k-verl", train=rows)


def test_data_the_run_can_read_is_clean(judge: Judge) -> None:
    found, told, _ = judge(
        nemo_rl(), train=[{"input": "1 + 1?", "output": "2"}], validation=[{"input": "1 + 2?", "output": "3"}]
    )
    assert found == []
    assert "2 rows of data" in told


def test_wrong_columns_are_reported_with_the_keys_to_set(judge: Judge) -> None:
    found, told, code = judge(nemo_rl("input_key: query"), train=[{"question": "1 + 1?", "solution": "2"}])
    assert found == [("data/column-missing", "error", 1), ("data/column-missing", "error", 1)]
    assert 'data.train.input_key is \\"query\\", and the columns are question, solution' in told
    assert 'data.train.output_key is \\"output\\", its default, and the columns are' in told
    assert "write job.config.data.train.input_key: question" in told
    assert "write job.config.data.train.output_key: solution" in told
    assert code == 1


def test_defaults_for_all_datasets_are_applied(judge: Judge) -> None:
    values = nemo_rl().replace("data: {", "data: {default: {input_key: q, output_key: a}, ")
    assert judge(values, train=[{"q": "1 + 1?", "a": "2"}])[0] == []


def test_older_versions_spell_the_keys_differently(judge: Judge) -> None:
    frameworks = ROOT / "values/frameworks/nemo-rl-v0.5.0.yaml"
    keys = "train_data_path: /data/own/train.jsonl, val_data_path: /data/own/test.jsonl, input_key: q, output_key: a"
    values = f"job: {{configFor: {{v0.5.0: {{data: {{dataset_name: ResponseDataset, {keys}}}}}}}}}\n"
    more = ["-f", str(frameworks)]
    assert judge(values, more=more, train=[{"q": "1 + 1?", "a": "2"}])[0] == []
    found, told, _ = judge(values, more=more, validation=[{"question": "1 + 1?", "answer": "2"}])
    assert [rule for rule, *_ in found] == ["data/column-missing"] * 2
    assert "job.config.data.input_key: question" in told


def test_a_full_solution_in_place_of_the_answer_is_found(judge: Judge) -> None:
    rows = [
        {"input": "1 + 1?", "output": "2"},
        {"input": "Clips?", "output": SOLUTION},
        {"input": "b", "output": PROSE},
    ]
    found, told, _ = judge(nemo_rl(), train=rows)
    assert found == [("data/answer-unreadable", "warning", 2), ("data/answer-unreadable", "warning", 3)]
    assert "write the final answer alone: 72" in told
    assert "1 of 3 rows" in told
    found, told, code = judge(nemo_rl(), train=rows[1:2])
    assert (found, code) == ([("data/answer-unreadable", "error", 1)], 1)


@pytest.mark.parametrize(
    "answer", ["72", "1,000", "$18", r"\frac{1}{2}", "Paris", "Queen Elizabeth II", r"We see that $2+2=4$."]
)
def test_answers_the_environment_can_read_give_no_finding(judge: Judge, answer: str) -> None:
    assert judge(nemo_rl(), train=[{"input": "1 + 1?", "output": answer}])[0] == []


@pytest.mark.parametrize("answer", [72, None, "", ["72"], "<answer>72</answer>"])
def test_answers_the_environment_cannot_read_are_found(judge: Judge, answer: object) -> None:
    found, _, _ = judge(nemo_rl(), train=[{"input": "1 + 1?", "output": answer}])
    assert found == [("data/answer-unreadable", "error", 1)]


# Run with math-verify 0.9.0: it compares such words as texts, in a box alone.
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Paris is the capital of France", "is a sentence"),
        ("Reset your password and try again.", "is a sentence"),
        ("Hello,\n\nthank you.\nBest", "has several lines of words"),
    ],
)
def test_answers_in_words_are_reported_as_matching_only_verbatim(judge: Judge, answer: str, said: str) -> None:
    found, told, _ = judge(nemo_rl(), train=[{"input": "Where?", "output": answer}])
    assert found == [("data/answer-unreadable", "warning", 1)]
    assert f"{said}, and environment math compares mathematics" in told
    assert "docs/howto/own-reward.md" in told


TONE = "def reward(ground_truth, response, **kwargs):\n    return 1.0, True\n"
SCORE = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"


@pytest.mark.parametrize("builtin", [False, True])
def test_an_answer_that_is_not_a_string_is_found_for_every_reward(judge: Judge, builtin: bool) -> None:
    entry = "{builtin: length, kwargs: {limit: 100}}" if builtin else f"{{file: {json.dumps(TONE)}}}"
    answers: list[object] = [["72"], None, {"a": 1}, True, 72, "72", "72"]
    rows = [{"input": f"{number}?", "output": answer} for number, answer in enumerate(answers)]
    found, told, _ = judge(nemo_rl(rewards=f"tone: {entry}"), train=rows)
    told_of = [(rule, line) for rule, _, line in found if rule != TYPES]
    assert told_of == [("data/answer-unreadable", line) for line in (1, 2, 3, 4)]
    assert "is a list, and reward tone takes a text: 1 of 7 rows" in told
    assert "is null, and reward tone takes a text" in told


def test_an_empty_answer_is_a_warning_with_a_custom_reward(judge: Judge) -> None:
    values = nemo_rl(rewards=f"tone: {{file: {json.dumps(TONE)}}}")
    found, told, _ = judge(values, train=[{"input": "a", "output": ""}])
    assert found == [("data/answer-unreadable", "warning", 1)]
    assert "is empty, and reward tone gets it" in told


def test_a_verl_reward_function_gets_the_answer_unchanged(judge: Judge) -> None:
    values = nemo_rl(rewards=f"score: {{file: {json.dumps(SCORE)}}}")
    assert judge(values, train=[{"input": "a", "output": ["72"]}])[0] == []


def test_a_file_name_misspelt_in_the_config_is_found(judge: Judge) -> None:
    rows = [{"input": "1 + 1?", "output": "2"}]
    found, told, _ = judge(nemo_rl().replace("/data/own/train", "/data/own/trian"), train=rows)
    assert found == [("data/another-name", "warning", 0)]
    assert "this file is called train.jsonl, and the run reads /data/own/trian.jsonl: did you mean the same" in told
    values = nemo_rl().replace("config: {", "config: {grpo: {num_prompts_per_step: 2}, ")
    found, told, _ = judge(values.replace("/data/own/train", "/data/own/trian"), train=rows)
    assert [rule for rule, *_ in found] == ["data/another-name", "data/too-few-rows"]
    found, told, _ = judge(values.replace("/data/own/train", "/data/own/tickets"), train=rows)
    assert found == []
    assert "not judged: whether train.jsonl is tickets.jsonl of the run" in told


def test_the_built_in_reward_needs_the_answer_marker(judge: Judge) -> None:
    rewards = "right: {builtin: exact_answer}"
    rows = [{"input": "a", "output": SOLUTION}, {"input": "b", "output": 72}, {"input": "c", "output": PROSE}]
    found, told, _ = judge(nemo_rl(rewards=rewards), train=rows)
    assert [each for each in found if each[0] != TYPES] == [("data/answer-unreadable", "warning", 3)]
    assert "reward right (exact_answer)" in told


def test_answers_are_not_checked_for_rewards_that_ignore_them(judge: Judge) -> None:
    rewards = "short: {builtin: length, kwargs: {limit: 100}}"
    assert judge(nemo_rl(rewards=rewards), train=[{"input": "a", "output": SOLUTION}])[0] == []


def test_a_file_with_fewer_rows_than_one_step_needs_is_found(judge: Judge) -> None:
    rows = [{"input": f"{number} + 1?", "output": "2"} for number in range(30)]
    values = nemo_rl().replace("config: {", "config: {grpo: {%s}, ")
    found, told, code = judge(values % "num_prompts_per_step: 64", train=rows)
    assert (found, code) == ([("data/too-few-rows", "error", 0)], 1)
    assert "a step takes 64 prompts, and the data set has 30 rows" in told
    found, told, _ = judge(values % "num_prompts_per_step: 7, max_num_steps: 10", train=rows)
    assert found == [("data/too-few-rows", "warning", 0)]
    assert "max_num_steps is 10, and 30 rows give 4 steps of 7 prompts in 1 epoch" in told
    assert judge(values % "num_prompts_per_step: 7, max_num_steps: 10, max_num_epochs: 3", train=rows)[0] == []


def test_rows_split_off_for_validation_do_not_count_as_training_rows(judge: Judge) -> None:
    rows = [{"input": f"{number} + 1?", "output": "2"} for number in range(30)]
    values = nemo_rl("split_validation_size: 0.05").replace(
        "config: {", "config: {grpo: {num_prompts_per_step: 29, max_num_steps: 1}, "
    )
    found, told, _ = judge(values, train=rows)
    assert found == [("data/too-few-rows", "error", 0)]
    assert "the data set has 28 rows, once data.train.split_validation_size has 2 of 30" in told
    assert judge(values, validation=rows)[0] == []


def test_the_row_count_is_not_checked_for_a_partially_read_file(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_ROWS", 3)
    rows = [{"input": f"{number} + 1?", "output": "2"} for number in range(4)]
    assert judge(nemo_rl(), train=rows)[0] == []


def test_too_few_rows_for_verl_batches_are_found(judge: Judge) -> None:
    values = VERL_VALUES.replace("{train_files", "{%s, train_files")
    found, told, code = verl(judge, *[VERL] * 30, values=values % "train_batch_size: 64")
    assert (found, code) == ([("data/too-few-rows", "error", 0)], 1)
    assert "data.train_batch_size is 64, and the training data have 30 rows" in told
    found, told, _ = verl(judge, *[VERL] * 30, values=values % "train_batch_size: 8, train_max_samples: 7")
    assert "the training data have 7 rows" in told
    more = (values % "train_batch_size: 7").replace("config: {", "config: {trainer: {total_training_steps: 10, %s}, ")
    found, told, _ = verl(judge, *[VERL] * 30, values=more % "total_epochs: 2")
    assert found == [("data/too-few-rows", "warning", 0)]
    assert "total_training_steps is 10, and 30 rows give 8 steps of 7 prompts in 2 epochs" in told
    assert verl(judge, *[VERL] * 30, values=more % "total_epochs: 3")[0] == []


def test_a_conversation_is_read_instead_of_two_columns(judge: Judge) -> None:
    pair = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]
    assert judge(nemo_rl("input_key: nothing"), train=[{"messages": pair}])[0] == []
    found, told, _ = judge(nemo_rl(), train=[{"messages": pair[:1]}])
    assert found == [("data/wrong-type", "error", 1)]
    assert "no list of a question and an answer" in told


def test_a_question_must_be_a_non_empty_string(judge: Judge) -> None:
    chat = [{"role": "user", "content": "1 + 1?"}]
    found, _, _ = judge(nemo_rl(), train=[{"input": chat, "output": "2"}, {"input": " ", "output": "2"}])
    assert [rule for rule, *_ in found if rule != TYPES] == ["data/wrong-type", "data/empty-question"]


def test_rows_shared_by_training_and_validation_are_found(judge: Judge) -> None:
    rows = [{"input": "1 + 1?", "output": "2"}, {"input": "1 + 2?", "output": "3"}]
    found, told, _ = judge(nemo_rl(), train=rows, validation=[{"input": "new", "output": "1"}, rows[1]])
    assert found == [("data/validation-in-training", "warning", 2)]
    assert [rule.severity for rule in READING if rule.id == "data/validation-in-training"] == ["warning"]
    assert "1 of 2 rows" in told
    assert "train.jsonl" in told


def test_the_source_of_prepared_data_is_checked_as_the_task_reads_it(judge: Judge) -> None:
    own = "{dataset_name: ResponseDataset, input_key: question, output_key: answer, data_path: "
    file = "'${oc.env:GRPO_DATASETS}/mine/train.jsonl'}"
    entry = "{repository: /data/raw/mine, question: problem, answer: solution}"
    values = f"job: {{prepareData: {{mine: {entry}}}, config: {{data: {{train: {own}{file}}}}}}}\n"
    assert judge(values, train=[{"problem": "1 + 1?", "solution": "Two.\n#### 2"}])[0] == []
    found, told, _ = judge(values, train=[{"problem": "1 + 1?", "solution": "2"}])
    assert found == [("data/answer-unreadable", "error", 1)]
    found, told, _ = judge(values, train=[{"question": "1 + 1?", "answer": "Two.\n#### 2"}])
    assert "write job.prepareData.mine.question: question" in told
    # The task itself has written this one.
    assert judge(values, train=[{"question": "1 + 1?", "answer": "2", "task_name": "math"}])[0] == []


def test_prepared_data_is_checked_as_verl_reads_it(judge: Judge) -> None:
    found, _, _ = judge("job: {}\n", "qwen2.5-32b-gsm8k-verl", train=[VERL | {"prompt": "1 + 1?"}])
    assert [rule for rule, *_ in found] == ["data/wrong-type"]
    found, _, _ = judge("job: {}\n", "qwen2.5-32b-gsm8k-verl", train=[{"question": "1 + 1?", "answer": "#### 2"}])
    assert found == []


def test_verl_reads_chat_messages_a_source_and_the_answer_in_a_map(judge: Judge) -> None:
    assert verl(judge, VERL)[0] == []
    found, told, _ = verl(judge, {"question": "1 + 1?", "answer": "2"})
    assert [rule for rule, *_ in found] == ["data/column-missing"] * 3
    assert "the columns are question, answer" in told
    assert "what answer has" in told
    row = {("messages" if key == "prompt" else key): value for key, value in VERL.items()}
    found, told, _ = verl(judge, row)
    assert [rule for rule, *_ in found] == ["data/column-missing"]
    assert "write job.config.data.prompt_key: messages" in told


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"prompt": "1 + 1?"}, "data/wrong-type"),
        ({"prompt": [{"content": "1 + 1?"}]}, "data/wrong-type"),
        ({"prompt": []}, "data/empty-question"),
        ({"reward_model": "2"}, "data/wrong-type"),
        ({"reward_model": {"style": "rule"}}, "data/wrong-type"),
        ({"reward_model": {"ground_truth": SOLUTION}}, "data/answer-unreadable"),
        ({"reward_model": {"ground_truth": "1,000"}}, "data/answer-unreadable"),
        ({"reward_model": {"ground_truth": 2}}, "data/answer-unreadable"),
        ({"data_source": "team/questions"}, "data/source-without-reward"),
        ({"data_source": None}, "data/wrong-type"),
        ({"extra_info": "none"}, "data/wrong-type"),
    ],
)
def test_data_verl_cannot_read_is_found(judge: Judge, change: Row, rule: str) -> None:
    found, _, code = verl(judge, VERL | change)
    assert (found, code) == ([(rule, "error", 1)], 1)


def test_with_custom_rewards_verl_accepts_any_data_source(judge: Judge) -> None:
    values = VERL_VALUES.replace("job: {", "job: {rewards: {right: {builtin: exact_answer}}, ")
    assert verl(judge, VERL | {"data_source": "team/questions"}, values=values)[0] == []
    own = VERL_VALUES.replace("config: {", "config: {reward: {custom_reward_function: {path: /data/own/score.py}}, ")
    model = VERL_VALUES.replace("config: {", "config: {reward: {reward_model: {enable: true}}, ")
    assert verl(judge, {"prompt": VERL["prompt"]}, values=model)[0] == []
    found, told, _ = verl(judge, VERL | {"data_source": "team/questions"}, values=own)
    assert found == []
    assert "not judged: how the reward of job.config reads the answers" in told


def test_parquet_is_read_where_pyarrow_is_installed(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    rows = [VERL, VERL | {"reward_model": {"style": "rule", "ground_truth": SOLUTION}}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "own.parquet")
    found, told, _ = judge(VERL_VALUES, "qwen2.5-32b-gsm8k-verl", train="own.parquet")
    assert [rule for rule, *_ in found] == ["data/answer-unreadable"]
    assert "1 of 2 rows, row 2 first" in told
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found, told, code = judge(VERL_VALUES, "qwen2.5-32b-gsm8k-verl", train="own.parquet")
    assert ([rule for rule, *_ in found], code) == (["checks/could-not-run"], 3)
    assert "not judged, because pyarrow is not installed: pip install pyarrow" in told


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("job: {name: x}\n", "data.train is the data set gsm8k"),
        ("job: {config: {data: {train: {dataset_name: my.module.Own, data_path: /data/own}}}}\n", "my.module.Own"),
    ],
)
def test_a_dataset_class_with_unknown_columns_is_named_and_not_checked(judge: Judge, values: str, reason: str) -> None:
    found, told, code = judge(values, train=[{"question": "1 + 1?", "answer": "2"}])
    assert ([rule for rule, *_ in found], code) == (["checks/could-not-run"], 3)
    assert reason in told
    assert "not judged: train=train.jsonl" in told


def test_a_custom_verl_dataset_class_is_named_and_not_checked(judge: Judge) -> None:
    values = VERL_VALUES.replace("{train_files", "{custom_cls: {path: /data/own.py, name: Own}, train_files")
    found, told, code = verl(judge, VERL, values=values)
    assert ([rule for rule, *_ in found], code) == (["checks/could-not-run"], 3)
    assert "a class of your own" in told


def test_only_the_first_rows_are_read(judge: Judge) -> None:
    rows: list[Row] = [{"input": f"{number} + 1?", "output": "2"} for number in range(samples.MOST_ROWS)]
    found, told, _ = judge(nemo_rl(), train=[*rows, {"other": 1}])
    assert found == []
    assert "the rows of train.jsonl after the first 1,000" in told
    assert "after the first" not in judge(nemo_rl(), train=rows)[1]


def test_the_lines_behind_the_first_rows_count(judge: Judge) -> None:
    rows: list[Row] = [{"input": f"{number} + 1?", "output": "2"} for number in range(samples.MOST_ROWS + 20)]
    values = "job: {config: {grpo: {num_prompts_per_step: 10, max_num_steps: 500, max_num_epochs: 3}}}\n"
    Path("own.yaml").write_text(values)
    found, told, _ = judge(nemo_rl(), more=["-f", "own.yaml"], train=rows)
    assert [rule for rule, *_ in found] == ["data/too-few-rows"]
    assert "1020 rows give 306 steps of 10 prompts in 3 epochs" in told


@pytest.mark.parametrize("answer", [["a"], 5, {"a": 1}, True])
def test_an_answer_that_an_older_library_cannot_put_beside_the_question(judge: Judge, answer: Any) -> None:
    """Tried with the versions of `datasets` that the images have."""
    older = ["-f", str(ROOT / "values/frameworks/nemo-rl-v0.6.0.yaml")]
    rows = [{"input": "1 + 1?", "output": answer}]
    found, told, _ = judge(nemo_rl(), more=older, train=rows)
    assert [rule for rule, *_ in found] == ["data/wrong-type"]
    assert "ArrowInvalid" in told
    assert "data/wrong-type" not in [rule for rule, *_ in judge(nemo_rl(), train=rows)[0]]


def test_only_a_limited_number_of_bytes_is_read(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_BYTES", 80)
    rows = [{"input": f"{number} + 1?", "output": "2"} for number in range(9)]
    assert "the rows of train.jsonl after the first 2" in judge(nemo_rl(), train=rows)[1]


def test_a_line_that_is_not_a_row_is_found(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_bytes(b'\xef\xbb\xbf{"input": "a", "output": "2"}\r\n\n[1]\n{"a"\n\xff\n')
    found, told, _ = judge(nemo_rl(), train="own.jsonl")
    assert found == [("data/not-a-row", "error", 3)]
    assert "this line is no JSON object, as 2 other lines" in told


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'[{"input": "a"}]', "jq -c '.[]' own.jsonl"),
        (b"", "this file has no rows"),
        (b"a,b\n1,2\n", "this one is not JSON"),
        (b"PAR1 and nothing", "no Parquet file"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_not_a_data_file_is_refused(
    judge: Judge, content: bytes | None, said: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "own.jsonl").write_bytes(content)
    _, told, code = judge(nemo_rl(), train="own.jsonl")
    assert said in told
    assert code == (2 if content is not None else 3)


def test_a_role_the_run_does_not_have_is_refused(judge: Judge) -> None:
    values = (
        "job: {config: {data: {train: {dataset_name: ResponseDataset, data_path: /d/a.jsonl}, validation: null}}}\n"
    )
    _, told, code = judge(values, validation=[{"input": "a", "output": "2"}])
    assert code == 2
    assert "data.validation is not set" in told


@pytest.mark.parametrize("word", ["own.jsonl", "test=own.jsonl", "train="])
def test_a_malformed_data_option_is_refused(judge: Judge, word: str) -> None:
    _, told, code = judge(nemo_rl(), more=["--data", word])
    assert code == 2
    assert re.search(r"--data is .*expected train=FILE or validation=FILE", told)


def test_a_file_is_matched_to_the_dataset_with_the_same_name(judge: Judge) -> None:
    one = "{dataset_name: ResponseDataset, data_path: /d/a.jsonl}"
    other = "{dataset_name: ResponseDataset, data_path: /d/train.jsonl, input_key: q, output_key: a}"
    values = f"job: {{config: {{data: {{train: [{one}, {other}]}}}}}}\n"
    assert judge(values, train=[{"q": "1 + 1?", "a": "2"}])[0] == []
    _, told, code = judge(values.replace("/d/train", "/d/b"), train=[{"q": "1 + 1?", "a": "2"}])
    assert code == 3
    assert "not one is called train.jsonl" in told


def test_each_of_several_training_files_is_checked_with_its_own_section(judge: Judge) -> None:
    one = "{dataset_name: ResponseDataset, data_path: /d/one/a.jsonl, input_key: q, output_key: a}"
    other = "{dataset_name: ResponseDataset, data_path: /d/two/a.jsonl}"
    test = "{dataset_name: ResponseDataset, data_path: /d/test.jsonl}"
    values = f"job: {{config: {{data: {{train: [{one}, {other}], validation: {test}}}}}}}\n"
    rows = {"one": [{"q": "1 + 1?", "a": "2"}], "two": [{"input": "1 + 3?", "output": "4"}]}
    for name, of_one in rows.items():
        Path(name).mkdir()
        Path(name, "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in of_one))
    more = ["--data", "train=one/a.jsonl", "--data", "train=two/a.jsonl"]
    found, told, _ = judge(values, more=more, validation=[{"input": "1 + 3?", "output": "4"}])
    assert (found, "3 rows of data" in told) == ([("data/validation-in-training", "warning", 1)], True)
    assert "remove these rows from two/a.jsonl or from validation.jsonl" in told
    Path("one/a.jsonl").write_text('{"nope": "1 + 1?", "a": "2"}\n')
    found, told, _ = judge(values, more=more)
    assert [rule for rule, *_ in found] == ["data/column-missing"]
    assert 'input_key is \\"q\\"' in told
    Path("a.jsonl").write_text('{"input": "1 + 3?", "output": "4"}\n')
    _, told, code = judge(values, more=["--data", "train=a.jsonl"])
    assert (code, "data.train has 2 files, and several are called a.jsonl" in told) == (3, True)


def test_each_of_several_training_files_of_verl_is_checked(judge: Judge) -> None:
    values = VERL_VALUES.replace("/data/own/train.parquet", "[/d/gsm8k/train.parquet, /d/math/train.parquet]")
    files = {"gsm8k": "data_source", "math": "source"}
    for name, column in files.items():
        Path(name).mkdir()
        row = {column if key == "data_source" else key: value for key, value in VERL.items()}
        Path(name, "train.jsonl").write_text(f"{json.dumps(row)}\n")
    more = [word for name in files for word in ("--data", f"train={name}/train.jsonl")]
    found, told, _ = judge(values, "qwen2.5-32b-gsm8k-verl", more=more)
    assert [rule for rule, *_ in found] == ["data/column-missing"]
    assert ('"file": "math/train.jsonl"' in told, "whether" in told) == (True, False)


def test_two_files_in_place_of_one_file_of_the_run_are_refused(judge: Judge) -> None:
    Path("part.jsonl").write_text('{"input": "1 + 1?", "output": "2"}\n')
    more = ["--data", "train=part.jsonl"]
    _, told, code = judge(nemo_rl(), more=more, train=[{"input": "1 + 3?", "output": "4"}])
    assert code == 2
    assert "train=train.jsonl is given for /data/own/train.jsonl of the run, but so is this file" in told


def test_no_row_content_is_printed(judge: Judge, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(json.dumps({"input": "1 + 1?", "output": "#### confidential"}) + "\n")
    judge(nemo_rl(), train="own.jsonl")
    files = [word for path in (*stack_files()[:2], SITE, "mine.yaml") for word in ("-f", str(path))]
    assert cli.main(["lint", "--no-render", *files, "--data", "train=own.jsonl"]) == 1
    out = capsys.readouterr().out
    assert "own.jsonl:1:1: " in out
    assert "also: mine.yaml:1:" in out
    assert "job.config.data.train.dataset_name" in out
    assert "confidential" not in out


def test_parquet_is_read_in_batches(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([VERL] * 250), "own.parquet")
    assert "250 rows of data" in judge(VERL_VALUES, "qwen2.5-32b-gsm8k-verl", train="own.parquet")[1]
    monkeypatch.setattr(samples, "MOST_BYTES", 1)
    told = judge(VERL_VALUES, "qwen2.5-32b-gsm8k-verl", train="own.parquet")[1]
    assert "the rows of own.parquet after the first 100" in told


def test_a_file_outside_the_checkout_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "own.jsonl"
    outside.write_text('{"input": "a", "output": "2"}\n')
    monkeypatch.setenv(textfile.CHECKOUT, str(tmp_path))
    with pytest.raises(InputError, match="outside of the checkout"):
        samples.read("train", str(outside))


QA: Row = {"input": ["1 + 1?", "1 + 2?"], "output": ["2", "3"]}


def _odd_columns(name: str) -> Any:
    """Return a column that Arrow holds and Python cannot."""
    arrow = pytest.importorskip("pyarrow")
    if name == "text":
        texts = arrow.array([b"\xff\xfe", b"ok"], arrow.binary())
        return arrow.Array.from_buffers(arrow.string(), 2, texts.buffers())
    if name == "time":
        return arrow.array([2**62, 1], arrow.timestamp("us"))
    if name == "day":
        return arrow.array([2**30, 1], arrow.int32()).cast(arrow.date32())
    numbers = arrow.array([1, 2])
    return arrow.StructArray.from_arrays([numbers, numbers], ["a", "a"])


@pytest.mark.parametrize("odd", ["text", "time", "day", "map"])
def test_a_column_python_cannot_represent_is_an_error_only_if_used(judge: Judge, odd: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow.parquet.write_table(pyarrow.table(QA | {"note": _odd_columns(odd)}), "own.parquet", store_schema=False)
    found, told, _ = judge(nemo_rl(), train="own.parquet")
    assert found == []
    assert "2 rows of data" in told
    pyarrow.parquet.write_table(pyarrow.table(QA | {"output": _odd_columns(odd)}), "own.parquet", store_schema=False)
    _, told, code = judge(nemo_rl(), train="own.parquet")
    assert code == 2
    assert "cannot be read" in told


def test_parquet_that_lacks_a_required_column_is_checked(judge: Judge) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"question": ["1 + 1?"], "answer": ["2"]}), "own.parquet")
    found, told, _ = judge(nemo_rl(), train="own.parquet")
    assert [rule for rule, *_ in found] == ["data/column-missing"] * 2
    assert "the columns are question, answer" in told


def test_parquet_without_columns_is_refused(judge: Judge) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow.parquet.write_table(pyarrow.table({}), "own.parquet")
    _, told, code = judge(nemo_rl(), train="own.parquet")
    assert code == 2
    assert "this file has no columns" in told


def test_the_same_question_about_two_images_is_not_a_duplicate(judge: Judge) -> None:
    def row(picture: str, answer: str) -> Row:
        asked = [{"role": "user", "content": "<image>Find x."}]
        return VERL | {"prompt": asked, "images": [{"bytes": picture}], "reward_model": {"ground_truth": answer}}

    def found(*validation: Row) -> list[str]:
        files = {"train": [row("a", "1"), row("b", "2")], "validation": validation}
        return [rule for rule, *_ in judge(VERL_VALUES, "qwen2.5-32b-gsm8k-verl", **files)[0]]

    assert found(row("c", "3"), row("d", "1")) == []
    assert found(row("b", "2")) == ["data/validation-in-training"]


def test_a_conversation_begins_with_the_question(judge: Judge) -> None:
    said = [{"role": role, "content": role} for role in ("system", "user", "assistant")]
    found, told, _ = judge(nemo_rl(), train=[{"messages": said}])
    assert [rule for rule, *_ in found] == ["data/wrong-type"]
    assert "begins with role system and role user" in told
    assert "the first message is the question" in told
    assert judge(nemo_rl(), train=[{"messages": said[1:]}])[0] == []
    names = [{"role": role, "content": role} for role in ("human", "gpt")]
    assert judge(nemo_rl(), train=[{"messages": names}])[0] == []
    told = judge(nemo_rl(), train=[{"messages": [said[0], {"role": ["confidential"], "content": "2"}]}])[1]
    assert "begins with role system and another role" in told


def test_a_file_is_checked_for_each_section_that_reads_it(judge: Judge) -> None:
    own = "dataset_name: ResponseDataset, data_path: /d/t.jsonl"
    for keys in ("nope", "q"), ("q", "nope"):
        sections = ", ".join(f"{{{own}, input_key: {key}, output_key: a}}" for key in keys)
        values = f"job: {{config: {{data: {{train: [{sections}]}}}}}}\n"
        found, told, _ = judge(values, train=[{"q": "1 + 1?", "a": "2"}])
        assert [rule for rule, *_ in found] == ["data/column-missing"]
        assert 'input_key is \\"nope\\"' in told


@pytest.mark.parametrize("content", ["confidential\n", '["confidential"]\n'])
def test_a_line_that_is_not_a_row_is_not_printed(
    judge: Judge, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    judge(nemo_rl(), train=[{"input": "a", "output": "2"}])
    Path("own.jsonl").write_text(content)
    files = [word for path in (*stack_files()[:2], SITE, "mine.yaml") for word in ("-f", str(path))]
    assert cli.main(["lint", "--no-render", *files, "--data", "train=own.jsonl"]) == 2
    told = capsys.readouterr()
    assert "own.jsonl:1:1" in told.err
    assert "confidential" not in told.out + told.err


@pytest.mark.parametrize(
    "config",
    [
        "reward_model: {reward_loop_source: importlib, reward_loop_module_path: /data/a.py, reward_loop_class_name: A}",
        "reward: {reward_manager: {source: importlib, name: A, module: {path: /data/a.py}}}",
    ],
)
def test_answers_are_not_checked_for_a_custom_reward_manager(judge: Judge, config: str) -> None:
    values = VERL_VALUES.replace("{config: {", f"{{config: {{{config}, ")
    found, told, _ = verl(judge, {"prompt": VERL["prompt"], "answer": "2"}, values=values)
    assert found == []
    assert "not judged: how the reward of job.config reads the answers" in told


@pytest.mark.parametrize("name", ["own.csv", "own.arrow", "own.txt"])
def test_other_file_types_nemo_rl_reads_are_not_checked(judge: Judge, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("input,output\n1 + 1?,2\n")
    found, told, code = judge(nemo_rl(), train=name)
    assert ([rule for rule, *_ in found], code) == (["checks/could-not-run"], 3)
    assert "only JSON lines and Parquet are judged" in told


def test_a_tool_call_may_have_empty_content(judge: Judge) -> None:
    calls = {"role": "assistant", "tool_calls": [{"id": "x"}]}
    asked = [{"role": "user", "content": "a"}, calls, {"role": "tool", "content": "r"}]
    assert verl(judge, VERL | {"prompt": asked})[0] == []
    assert verl(judge, VERL | {"prompt": [calls]})[0] == [("data/empty-question", "error", 1)]


@functools.cache
def _readers() -> list[Callable[[], Reader]]:
    runs = [
        described_run(merge.load([str(path) for path in stack_files("b200", recipe)]))
        for recipe in ("gemma3-27b-gsm8k", "qwen2.5-32b-gsm8k-verl")
    ]
    nemo_rl_run, verl_run = runs
    assert nemo_rl_run
    assert verl_run
    return [
        lambda: Responses(nemo_rl_run, "data.train", {"dataset_name": "ResponseDataset"}, "/data/train.jsonl"),
        lambda: Source("mine", {}, "/data/train.jsonl"),
        lambda: Chats(verl_run, "data.train_files", "/data/train.parquet"),
    ]


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("role", "content", "ground_truth", "x")), inner, max_size=3)
    ),
    max_leaves=6,
)
_NAMES = st.sampled_from(
    ("input", "output", "question", "answer", "messages", "prompt", "data_source", "reward_model", "extra_info")
)


@given(rows=st.lists(st.dictionaries(_NAMES, _JSON, max_size=9), min_size=1, max_size=3))
def test_no_row_crashes_a_reader(rows: list[Row]) -> None:
    for make in _readers():
        reader = make()
        for problem in reader.of_columns([*dict.fromkeys(name for row in rows for name in row)]):
            assert problem.fix
        for row in rows:
            for problem in reader.of_row(row):
                assert problem.rule.startswith("data/")
            assert isinstance(reader.question(row), str | None)


# -- lengths and types

OF_TEXTS = """
job:
  config:
    policy: {max_total_sequence_length: 512}
    data:
      train: {dataset_name: ResponseDataset, data_path: /data/a.jsonl, input_key: q, output_key: a}
      validation: {dataset_name: ResponseDataset, data_path: /data/b.jsonl, input_key: q, output_key: a}
      default: {env_name: math, prompt_file: null, processor: math_hf_data_processor}
"""


@pytest.mark.parametrize(
    ("question", "found", "said"),
    [
        ("word " * 512, [], "lengths in tokens (the question of train.jsonl:2 has"),
        ("word " * 513, [("data/prompt-too-long", "error", 2)], "more words than a prompt may have tokens"),
        ("words" * 100, [], ""),
        ("\u8bcd" * 400, [], "lengths in tokens"),
    ],
)
def test_a_prompt_that_is_too_long_is_found(
    question: str, found: list[tuple[str, str, int]], said: str, judge: Judge
) -> None:
    rows = [{"q": "1 + 1?", "a": "2"}, {"q": question, "a": "3"}]
    told, text, _ = judge(OF_TEXTS, train=rows)
    assert (told, said in text) == (found, True)
    assert ("lengths in tokens" in text) == ("lengths" in said)
    few = [("data/prompt-too-long", "warning", 2)] if found else []
    assert judge(OF_TEXTS, train=[*rows, rows[0] | {"q": "1 + 2?"}])[0] == few


def test_a_prompt_that_is_too_long_for_verl_is_found(judge: Judge) -> None:
    row = VERL | {"prompt": [{"role": "user", "content": "word " * 2000}]}
    values = "job: {config: {data: {train_files: /data/a.jsonl, filter_overlong_prompts: %s}}}\n"
    for switch, why in (("true", "leaves the row out"), ("false", "cuts the prompt")):
        told, text, _ = judge(values % switch, "qwen2.5-32b-gsm8k-verl", train=[row])
        assert ("data/prompt-too-long", "error", 1) in told
        assert why in text


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([{"a": "1"}, {"a": "2", "z": "x"}, {"a": "3", "z": 1}], "column z has texts and, from here on, numbers"),
        ([{"a": "1", "z": {"k": [1]}}, {"a": "2"}, {"a": "3", "z": {"k": ["x"]}}], "column z.k[] has numbers and"),
        ([{"a": "1", "z": 1}, {"a": "2", "z": None}, {"a": "3", "z": 1.5}], ""),
        ([{"a": "2024-01-02"}, {"a": "2024-01-03"}], "column a has dates alone"),
    ],
)
def test_a_column_with_mixed_types_is_found(rows: list[Row], what: str, judge: Judge) -> None:
    told, text, _ = judge(OF_TEXTS, train=[{"q": f"question {at}", **row} for at, row in enumerate(rows)])
    types = [each for each in told if each[0] == TYPES]
    assert types == ([(TYPES, "warning", 1 if "dates" in what else 3)] if what else [])
    assert what in text
