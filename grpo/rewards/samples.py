"""Answers to score: built-in ones in the format that the rewards look for, or those in a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from grpo.lint.data import readers
from grpo.lint.data import samples as data_samples
from grpo.lint.data.readers import Reader
from grpo.lint.data.samples import Row
from grpo.rewards.files import RewardFiles
from grpo.rewards.form import Form
from grpo.values.config import RunConfig
from grpo.values.reference_errors import UnknownError
from postrender import json_text, textfile
from postrender.errors import InputError, Location
from postrender.types import Json
from reward_answers import find_answer

RIGHT, WRONG, EMPTY, BADLY_FORMED = "right", "wrong", "empty", "badly formed"
EXPECTED: Final = "expected"
# Each is scored twice, within the time limit of the command.
MOST_ROWS: Final = 100
_QUESTION: Final = "A box holds 12 pencils. How many pencils are in 6 boxes?"
_TRUTH, _OTHER, _THOUGHT = "72", "71", "6 times 12 is"
_KEYS: Final = ("prompt", "ground_truth", "response")
# A longer one is a solution or a program.
_LONGEST: Final = 200


class Of(NamedTuple):
    """The row of the user's data that an answer is to.

    `form_of` says what asks for its format, by a name of grpo.rewards.form, and `is_right` whether the expected answer
    is a right one.
    """

    row: str
    name: str
    is_right: bool
    form_of: str


class Sample(NamedTuple):
    """One answer: the data set's question, the expected answer, a model's response, and verl's arguments."""

    name: str
    prompt: str
    ground_truth: Any
    response: Any
    data_source: Any = None
    extra_info: Any = None
    row: Of | None = None


def builtin(entries: Mapping[str, Mapping[str, Any]], prompt: str) -> list[Sample]:
    """Return a right, a wrong, an empty and a badly formed answer; the prompt shows what user rewards expect."""
    form = Form(entries, prompt)
    right, wrong = (form.whole(each, f"{_THOUGHT} {each}.") for each in (_TRUTH, _OTHER))
    broken = form.broken(_TRUTH, f"{_THOUGHT} {_TRUTH}.")
    texts = {RIGHT: right, WRONG: wrong, EMPTY: "", BADLY_FORMED: broken}
    return [Sample(name, _QUESTION, _TRUTH, text) for name, text in texts.items()]


def of_rows(run: RunConfig, role: str, file: str, given: RewardFiles, asked: Callable[[str], str]) -> list[Sample]:
    """Return answers to each of the first rows of data: the expected one, that of another row, and none.

    They have the format that the prompt of the row asks for, which `asked` makes of its question where the run does.
    No answer of another row stands beside what is no short text, such as a list of tests. Raises InputError for rows
    that the run cannot read, and where it is not known what it reads.
    """
    reader, rows = _read_rows(run, role, file)
    expected = [reader.expected(row.values) for row in rows]
    answers = [_answer(each.ground_truth) for each in expected]
    found = list[Sample]()
    for at, (row, one) in enumerate(zip(rows, expected, strict=True)):
        place = f"{row.at.file}:{row.at.line}" if not row.label else f"{row.at.file} {row.label}"
        question = str(reader.question(row.values) or "")
        form = Form(given.entries, asked(question)).for_row(one.data_source, [*given.texts.values()])
        right = answers[at]
        wrong = next((each for each in (*answers[at + 1 :], *answers[:at]) if each and each != right), _other(right))
        texts = {EXPECTED: str(one.ground_truth) if right is None else right}
        if right:
            texts[WRONG] = wrong
        responses = {name: form.whole(text, f"It is {text}.") for name, text in texts.items()}
        for name, text in {**responses, EMPTY: ""}.items():
            more = Of(place, name, right is not None, form.of)
            found.append(Sample(f"{place} {name}", question, one.ground_truth, text, *one[1:], row=more))
    return found


def _read_rows(run: RunConfig, role: str, file: str) -> tuple[Reader, Sequence[Row]]:
    try:
        sample = data_samples.read(role, file)
        reader = readers.choose(run, sample)[0]
        sample = sample.filled(reader.used)
        problems = reader.of_columns(sample.columns)
    except data_samples.UnjudgedError as error:
        raise InputError(f"its rows cannot be tried: {error}", at=Location(file), fix=error.fix) from error
    except UnknownError as error:
        raise InputError(f"only the running job knows {error}", at=Location(file), fix="give --sample") from error
    if sample.faulty:
        at, reason = sample.faulty[0]
        raise InputError(f"this line {reason}", at=at, fix="write one JSON object a line")
    if problems:
        raise InputError(problems[0].what, at=Location(file), fix=problems[0].fix)
    return reader, sample.rows[:MOST_ROWS]


def _other(answer: str | None) -> str:
    """Return a wrong answer where all rows expect the same one."""
    return str(int(answer) + 1) if answer and re.fullmatch(r"-?\d+", answer) else "none of these"


def _answer(truth: Json) -> str | None:
    """Return the final answer that a row expects; None for what is no short text, such as a list of tests."""
    if isinstance(truth, bool) or not isinstance(truth, str | int | float):
        return None
    text = str(truth).strip()
    marked = find_answer(text)
    text = text if marked is None else marked.strip()
    if not text or "\n" in text or len(text) > _LONGEST:
        return None
    try:
        is_list = isinstance(json_text.loads(text), list | dict)
    except ValueError:
        is_list = False
    return None if is_list else text


def read(path: str) -> list[Sample]:
    """Read a file with one JSON object per line; raise InputError if a line is not an object or lacks a key."""
    data = textfile.read_bytes(path)
    textfile.check_text(data, path)
    lines = enumerate(data.decode("utf-8").splitlines(), 1)
    found = [_sample(line, Location(path, number, 1)) for number, line in lines if line.strip()]
    if not found:
        raise InputError("this file has no samples", at=Location(path), fix="write one JSON object a line")
    return found


def _sample(line: str, at: Location) -> Sample:
    fix = 'write {"prompt": "…", "ground_truth": "…", "response": "…"}'
    try:
        row = json_text.loads(line)
    except ValueError as error:
        raise InputError(f"this line is not JSON: {error}", at=at, fix=fix) from error
    if not isinstance(row, dict):
        raise InputError("this line is not a JSON object", at=at, fix=fix)
    if missing := [key for key in _KEYS if key not in row]:
        raise InputError(f"this sample has no {' and no '.join(missing)}", at=at, fix=fix)
    texts = str(row["prompt"]), row["ground_truth"], row["response"]
    return Sample(str(row.get("name") or f"line {at.line}"), *texts, row.get("data_source"), row.get("extra_info"))
