"""Answers to score: built-in ones in the format that the rewards look for, or those of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from grpo.lint.data import readers
from grpo.lint.data import samples as data_samples
from grpo.values.config import RunConfig
from grpo.values.reference_errors import UnknownError
from postrender import json_text, textfile
from postrender.errors import InputError, Location

RIGHT, WRONG, EMPTY, BADLY_FORMED = "right", "wrong", "empty", "badly formed"
EXPECTED: Final = "expected"
# Each is scored twice, within the time limit of the command.
MOST_ROWS: Final = 100
_QUESTION: Final = "A box holds 12 pencils. How many pencils are in 6 boxes?"
_TRUTH, _OTHER, _THOUGHT = "72", "71", "6 times 12 is"
_KEYS: Final = ("prompt", "ground_truth", "response")


class Sample(NamedTuple):
    """One answer: the question of the data set, the true answer, a model's response, and what verl's rewards get."""

    name: str
    prompt: str
    ground_truth: Any
    response: Any
    data_source: Any = None
    extra_info: Any = None
    # The row of the user's data that it is of, else None.
    row: str | None = None


def builtin(entries: Mapping[str, Mapping[str, Any]], prompt: str) -> list[Sample]:
    """Return a right, a wrong, an empty and a badly formed answer; the prompt says what rewards of one's own expect."""
    form = _Form(entries, prompt)
    texts = {RIGHT: form.whole(_TRUTH), WRONG: form.whole(_OTHER), EMPTY: "", BADLY_FORMED: form.broken(_TRUTH)}
    return [Sample(name, _QUESTION, _TRUTH, text) for name, text in texts.items()]


def of_rows(
    run: RunConfig, role: str, file: str, entries: Mapping[str, Mapping[str, Any]], prompt: str
) -> list[Sample]:
    """Return two answers to each of the first rows of data: its expected answer in the format of the run, and none.

    What is right is not known: an expected answer may be a list of tests. Raises InputError for rows that the run
    cannot read, and where it is not known what it reads.
    """
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
    form, found = _Form(entries, prompt), list[Sample]()
    for row in sample.rows[:MOST_ROWS]:
        expected, at = reader.expected(row.values), row.at
        place = f"{at.file}:{at.line}" if not row.label else f"{at.file} {row.label}"
        question = str(reader.question(row.values) or "")
        for name, text in ((EXPECTED, form.whole(str(expected.ground_truth))), (EMPTY, "")):
            found.append(Sample(f"{place} {name}", question, expected.ground_truth, text, *expected[1:], row=place))
    return found


class _Form:
    """The format of an answer: the tags of a reward `format`, and the marker of a reward `exact_answer`."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]], prompt: str) -> None:
        kwargs = {str(each.get("builtin")): each.get("kwargs") or {} for each in entries.values()}
        shape, exact = kwargs.get("format", {}), kwargs.get("exact_answer", {})
        self.think = str(shape.get("think_tag") or exact.get("think_tag") or "think")
        self.answer = str(shape.get("answer_tag") or exact.get("answer_tag") or "answer")
        known = exact.get("markers") or ("answer", "boxed", "####")
        asked = {"boxed": r"\boxed", "####": "####", "answer": f"<{self.answer}>"}
        tagged = "format" in kwargs and "answer" in known
        named = [marker for marker in known if marker in asked and asked[marker] in prompt]
        self.marker = "answer" if tagged else str([*named, *known][0])
        self.thinks = "format" in kwargs or f"<{self.think}>" in prompt

    def whole(self, answer: str) -> str:
        thought = f"{_THOUGHT} {answer}."
        marked = {"boxed": rf"\boxed{{{answer}}}", "####": f"#### {answer}"}
        last = marked.get(self.marker, f"<{self.answer}>{answer}</{self.answer}>")
        return f"<{self.think}>{thought}</{self.think}>\n{last}" if self.thinks else f"{thought}\n{last}"

    def broken(self, answer: str) -> str:
        """Return the answer with nothing closed, or without a mark."""
        marked = {"boxed": rf"\boxed{{{answer}", "####": f"The answer is {answer}."}
        last = marked.get(self.marker, f"<{self.answer}>{answer}")
        return f"<{self.think}>{_THOUGHT} {answer}.\n{last}" if self.thinks else f"{_THOUGHT} {answer}.\n{last}"


def read(path: str) -> list[Sample]:
    """Read a file with one JSON object a line; raise InputError for a line that is none, or lacks a key."""
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
