"""The columns that a run reads from a row, and what it cannot read there: one reader for each kind of data."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from grpo.lint.data import answers
from grpo.lint.data.answers import Judge
from grpo.lint.data.row_fault import RowFault
from grpo.lint.data.samples import ROLES, Sample, UnjudgedError
from grpo.problems.checks import quoted
from grpo.values.config import RunConfig
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import data_sections
from postrender.errors import InputError, Location
from postrender.types import Json
from postrender.values.merge import value_at
from reward_numbers import final_answer

TRAIN, VALIDATION = ROLES
_PREPARED: Final = re.compile(r"\$\{oc\.env:GRPO_DATASETS\}/([^/$]+)/[^/$]+")
# What people call the two texts; the first one that a file has is the best guess.
# The first version whose library `datasets` puts values of several types into one list.
_MIXES: Final = "v0.7.0"
_QUESTIONS: Final = ("question", "problem", "input", "prompt", "query", "instruction")
_ANSWERS: Final = (
    *("answer", "output", "final_answer", "expected_answer", "ground_truth", "target", "label", "solution"),
    *("response", "completion"),
)
# The columns by which one knows what task prepare-data has written: jobs/tasks/prepare_data.py at 0.1.0.
_WRITTEN: Final = (frozenset(("question", "answer", "task_name")), frozenset(("prompt", "reward_model")))
# Roles of a message that is no question, and of one that is no answer; only the places count for NeMo RL.
_NO_QUESTION: Final = ("system", "developer", "assistant", "tool")
_NO_ANSWER: Final = ("system", "developer", "user", "tool")
_READS_PAIR: Final = "math_hf_data_processor"
# Where verl's reward reads a row.
_OF_MANAGER: Final = "verl/experimental/reward_loop/reward_manager/naive.py:{} at 0.9.1"
_MODELS: Final = ("reward_model.enable", "reward.reward_model.enable")
_MANAGERS: Final = ("reward_model.reward_loop_source", "reward.reward_manager.source")
# A call of a tool may have no words.
_TURN: Final = ("content", "tool_calls")
_CHAT: Final = 'write [{"role": "user", "content": "…"}]'


class Expected(NamedTuple):
    """What a reward receives from a row: the expected answer, and what verl passes along with it."""

    ground_truth: Json
    data_source: Json = None
    extra_info: Json = None


class Reader(Protocol):
    """Knows what is read from a row; `unread` says what it does not judge, and `file` which file the run reads.

    `place` is the key of the values that names the file.
    """

    unread: list[str]
    file: str
    place: str

    @property
    def used(self) -> list[str]:
        """Return the columns that are read."""

    def of_columns(self, columns: Sequence[str]) -> list[RowFault]:
        """Return problems that affect all rows: columns that no row has."""

    def of_row(self, row: Mapping[str, Json]) -> Iterator[RowFault]:
        """Yield a row's problems, except for columns that no row has."""

    def question(self, row: Mapping[str, Json]) -> str | None:
        """Return the question, by which two rows count as the same."""

    def expected(self, row: Mapping[str, Json]) -> Expected:
        """Return what a reward receives from a row."""


def choose(run: RunConfig, sample: Sample) -> list[Reader]:
    """Return a sample's readers: one for each section that names its file.

    Raises UnjudgedError if it is not known what is read, and InputError if the run reads no such data.
    """
    if not run.trains:
        raise UnjudgedError(f"job.task is {run.value('job.task')}, which reads no such data", "judge the training")
    return [_of_verl(run, sample)] if run.framework == "verl" else _of_nemo_rl(run, sample)


def _refuse(sample: Sample, keys: str) -> InputError:
    what = f"the run reads no file as {sample.role}: {keys} is not set"
    return InputError(what, at=Location(sample.file), fix=f"leave {sample.role}={sample.file} out, or set the key")


def _prepared(run: RunConfig, file: Json, sample: Sample) -> Reader | None:
    """Return the reader for the source of a file that the prepare-data task writes; None for any other file."""
    found = _PREPARED.fullmatch(file) if isinstance(file, str) else None
    entry = mapping(mapping(run.value("job.prepareData")).get(found[1])) if found else {}
    is_written = any(each <= {*sample.columns} for each in _WRITTEN)
    return Source(str(found[1]), entry, found[0]) if found and entry and not is_written else None


def _one(sample: Sample, files: Iterable[str], where: str) -> str:
    """Return the configured file that a sample represents: the only one, or the one whose path ends most alike."""
    alike = {file: _same_parts(sample.file, file) for file in files}
    most = max(alike.values())
    best = [file for file, count in alike.items() if count == most]
    if len(alike) > 1 and (most == 0 or len(best) > 1):
        called = "several are" if most else "not one is"
        name = os.path.basename(sample.file)
        fix = "give the sample the name, and the folder, of the file that it is from"
        raise UnjudgedError(f"{where} has {len(alike)} files, and {called} called {name}", fix)
    return best[0]


def _same_parts(one: str, other: str) -> int:
    """Return how many parts two paths share, counted from their ends; a name counts without its extension."""
    both = ([*reversed(os.path.splitext(file)[0].split("/"))] for file in (os.path.abspath(one), other))
    return len([*itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*both, strict=False))])


def _of_nemo_rl(run: RunConfig, sample: Sample) -> list[Reader]:
    if run.since("v0.6.0"):
        place, key = f"data.{sample.role}", "data_path"
    else:
        place, key = "data", "train_data_path" if sample.role == TRAIN else "val_data_path"
    sections = [section for path, section in data_sections(run) if path == place and section.get("dataset_name")]
    if not sections or (sections[0].get("dataset_name") == "ResponseDataset" and not sections[0].get(key)):
        raise _refuse(sample, place if run.since("v0.6.0") else f"{place}.{key}")
    by_file: dict[str, list[Mapping[str, Json]]] = {}
    for each in sections:
        by_file.setdefault(str(each.get(key) or each["dataset_name"]), []).append(each)
    chosen = by_file[_one(sample, by_file, place)]
    for name in (each["dataset_name"] for each in chosen):
        if name != "ResponseDataset":
            what = f"{place} is the data set {name}, and only what ResponseDataset reads of a file is known"
            raise UnjudgedError(what, "leave it out, or name ResponseDataset and the file in the values")
    return [_prepared(run, each.get(key), sample) or Responses(run, place, each, str(each.get(key))) for each in chosen]


def _of_verl(run: RunConfig, sample: Sample) -> Reader:
    if run.at("data.custom_cls.path") is not None:
        what = f"data.custom_cls is {run.at('data.custom_cls.path')}, a class of your own"
        raise UnjudgedError(what, "try the class itself on the file")
    key = "train_files" if sample.role == TRAIN else "val_files"
    try:
        # Only the running job knows the folder in front of a name.
        given = value_at(run.config, ("data", key))
    except KeyError:
        given = None
    files = [file for file in (given if isinstance(given, list) else [given]) if isinstance(file, str)]
    if not files:
        raise _refuse(sample, f"data.{key}")
    file = _one(sample, files, f"data.{key}")
    return _prepared(run, file, sample) or Chats(run, f"data.{key}", file)


def _guess(columns: Sequence[str], names: Sequence[str]) -> str:
    """Return the column that is most likely meant; empty if no column has such a name."""
    lower = {each.lower(): each for each in reversed(columns)}
    return next((lower[name] for name in names if name in lower), "")


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(columns[:12])
    return f"{shown} and {len(columns) - 12} more" if len(columns) > 12 else shown


def _is_missing(value: Json) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _unreadable(
    judges: Sequence[Judge], value: Json, place: str, keys: tuple[str, ...], fix: str
) -> Iterator[RowFault]:
    for judge in judges:
        if reason := judge.wrong(value):
            what = f"the answer in {place} {reason}, and {judge.does}"
            keys, fix, is_doubtful = (*keys, *judge.keys), judge.fix or fix, judge.is_doubtful
            yield RowFault("data/answer-unreadable", what, keys, judge.why, fix, ends=False, is_doubtful=is_doubtful)


class Responses:
    """Rows for NeMo RL's ResponseDataset: two text columns, or a column `messages`."""

    def __init__(self, run: RunConfig, place: str, section: Mapping[str, Json], file: str) -> None:
        self._place = self.place = place
        self._run = run
        self.file = file
        self._names = {
            "input_key": str(section.get("input_key") or "input"),
            "output_key": str(section.get("output_key") or "output"),
        }
        self._given = [key for key in self._names if section.get(key)]
        self._absent = set[str]()
        self._has_messages = False
        self.unread = []
        processor = section.get("processor", _READS_PAIR)
        if answers.has_rewards(run):
            self._judges = answers.of_rewards(run)
        else:
            self._judges = answers.of_environment(run, section)
            if not self._judges:
                self.unread.append(f"how the environment {section.get('env_name')} compares the answers")
        if processor != _READS_PAIR:
            self._judges = []
            self.unread.append(f"what the processor {processor} reads of the texts")

    @property
    def used(self) -> list[str]:
        return ["messages", *self._names.values()]

    def _keys(self, key: str) -> tuple[str, ...]:
        return (f"{self._place}.{key}", f"data.default.{key}", f"{self._place}.dataset_name", self._place)

    def of_columns(self, columns: Sequence[str]) -> list[RowFault]:
        self._has_messages = "messages" in columns and self._run.since("v0.5.0")
        if self._has_messages:
            return []
        found = []
        for key, names in (("input_key", _QUESTIONS), ("output_key", _ANSWERS)):
            column = self._names[key]
            if column in columns:
                continue
            self._absent.add(key)
            default = "" if key in self._given else ", its default"
            what = f"{self._place}.{key} is {quoted(column)}{default}, and the columns are {_listed(columns)}"
            why = (
                "the data set reads it of each row, so the run ends at set-up: every pod has started"
                " (nemo_rl/data/datasets/response_datasets/response_dataset.py:81 at v0.7.0)"
            )
            best = _guess(columns, names)
            fix = f"write job.config.{self._place}.{key}: {best or 'the name of one of them'}"
            found.append(RowFault("data/column-missing", what, self._keys(key), why, fix))
        return found

    def of_row(self, row: Mapping[str, Json]) -> Iterator[RowFault]:
        if self._has_messages:
            yield from self._of_messages(row.get("messages"))
            return
        for key, column in self._names.items():
            if key not in self._absent:
                yield from self._of_text(key, column, row.get(column))

    def _of_text(self, key: str, column: str, value: Json) -> Iterator[RowFault]:
        place, keys = f"column {column}", self._keys(key)
        if key == "output_key" and not (isinstance(value, str) or value is None or self._run.since(_MIXES)):
            what = f"{place} has {_type(value)}, and beside the question {self._run.version} can only put a text"
            why = (
                "the run ends at set-up, with ArrowInvalid: every pod has started (its datasets 4.4.1 or 4.0.0 ended so"
                " here; 4.8.5, which v0.7.0 has, did not)"
            )
            yield RowFault("data/wrong-type", what, keys, why, "write every answer as a text")
        elif key == "output_key" and self._judges:
            fix = _fix_of_answer(value, "the final answer alone")
            yield from _unreadable(self._judges, value, place, keys, fix)
        elif key == "input_key" and _is_missing(value):
            yield _empty(place, keys)
        elif key == "input_key" and not isinstance(value, str):
            what = f"{place} has {_type(value)}, and ResponseDataset reads a text"
            # A list would stand in the prompt as Python writes it.
            why = (
                "the question is put into the prompt as one text"
                " (nemo_rl/data/datasets/response_datasets/response_dataset.py:81 at v0.7.0)"
            )
            fix = f"write a text; a conversation goes into a column messages: {_CHAT}"
            yield RowFault("data/wrong-type", what, keys, why, fix)

    def _of_messages(self, value: Json) -> Iterator[RowFault]:
        keys = self._keys("data_path")
        why = (
            "where a column is called messages, input_key and output_key are not read: the first message is the"
            " question and the second one the answer (nemo_rl/data/processors.py:392 at v0.7.0)"
        )
        if not (isinstance(value, list) and len(value) >= 2 and all(_is_message(each) for each in value)):
            what = "column messages is no list of a question and an answer"
            fix = (
                'write [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}], or rename the column'
            )
            yield RowFault("data/wrong-type", what, keys, why, fix)
            return
        asked, answered = value[0]["role"], value[1]["role"]
        if asked in _NO_QUESTION or answered in _NO_ANSWER:
            what = (
                f"column messages begins with {_said(asked)} and {_said(answered)}, not with a question and its answer"
            )
            fix = "remove the messages before the question; a system prompt goes into data.default.system_prompt_file"
            yield RowFault("data/wrong-type", what, keys, why, fix)
            return
        if _is_missing(value[0]["content"]):
            yield _empty("the first message", keys)
        answer = value[1]["content"]
        fix = _fix_of_answer(answer, "the final answer alone")
        yield from _unreadable(self._judges, answer, "the second message", keys, fix)

    def question(self, row: Mapping[str, Json]) -> str | None:
        messages = row.get("messages") if self._has_messages else None
        if isinstance(messages, list):
            value = messages[0].get("content") if messages and isinstance(messages[0], dict) else None
        else:
            value = row.get(self._names["input_key"])
        return value.strip() if isinstance(value, str) else None

    def expected(self, row: Mapping[str, Json]) -> Expected:
        messages = row.get("messages") if self._has_messages else None
        if isinstance(messages, list):
            return Expected(messages[1].get("content") if len(messages) > 1 and _is_message(messages[1]) else None)
        return Expected(row.get(self._names["output_key"]))


class Source:
    """Rows that the prepare-data task converts: a question, and a solution that ends in #### and a number."""

    def __init__(self, name: str, entry: Mapping[str, Json], file: str) -> None:
        self._place = self.place = f"=job.prepareData.{name}"
        self.file = file
        self._names = {key: str(entry.get(key) or key) for key in ("question", "answer")}
        self._given = [key for key in self._names if entry.get(key)]
        self._absent = set[str]()
        self.unread = list[str]()

    @property
    def used(self) -> list[str]:
        return [*self._names.values()]

    def of_columns(self, columns: Sequence[str]) -> list[RowFault]:
        found = []
        for key, names in (("question", _QUESTIONS), ("answer", ("answer", "solution", *_ANSWERS))):
            column = self._names[key]
            if column in columns:
                continue
            self._absent.add(key)
            default = "" if key in self._given else ", its default"
            place = f"{self._place[1:]}.{key}"
            what = f"{place} is {quoted(column)}{default}, and the columns are {_listed(columns)}"
            why = "task prepare-data ends at such a file (jobs/tasks/prepare_data.py:98 at 0.1.0)"
            fix = f"write {place}: {_guess(columns, names) or 'the name of one of them'}"
            found.append(RowFault("data/column-missing", what, self._keys(key), why, fix))
        return found

    def _keys(self, key: str) -> tuple[str, ...]:
        return (f"{self._place}.{key}", self._place)

    def of_row(self, row: Mapping[str, Json]) -> Iterator[RowFault]:
        for key, column in self._names.items():
            value = row.get(column)
            if key == "question" and key not in self._absent and _is_missing(value):
                yield _empty(f"column {column}", self._keys(key))
            if key == "answer" and key not in self._absent and not final_answer(value):
                what = f"column {column} does not end in #### and a number, and task prepare-data looks for it"
                why = "the task ends at such a row (jobs/tasks/prepare_data.py:107 at 0.1.0)"
                fix = "write #### and the final number at the end, or train on the file itself: docs/howto/own-data.md"
                yield RowFault("data/answer-unreadable", what, self._keys(key), why, fix)

    def question(self, row: Mapping[str, Json]) -> str | None:
        value = row.get(self._names["question"])
        return value.strip() if isinstance(value, str) else None

    def expected(self, row: Mapping[str, Json]) -> Expected:
        return Expected(final_answer(row.get(self._names["answer"])))


class Chats:
    """Rows for verl: a prompt of chat messages, a data source, and the expected answer in a map."""

    def __init__(self, run: RunConfig, key: str, file: str) -> None:
        self._data = (key, "data")
        self.place = key
        self.file = file
        self._prompt = str(run.at("data.prompt_key") or "prompt")
        # Later versions read data_source, whatever the key says.
        is_named = not run.since("0.7.1")
        self._source = str((run.at("data.reward_fn_key") if is_named else None) or "data_source")
        self._source_keys = ("data.reward_fn_key",) if is_named else ()
        self._pictures = [str(run.at(f"data.{key}_key") or f"{key}s") for key in ("image", "video", "audio")]
        self._absent = set[str]()
        self.unread = list[str]()
        self._rewards = answers.of_rewards(run)
        self._has_rewards = answers.has_rewards(run)
        self._by_source = not self._has_rewards and self._is_by_source(run)
        # It reads what it likes, and calls a reward or not.
        has_manager = any(run.at(key) == "importlib" for key in _MANAGERS)
        # A model that scores alone reads none of the other columns.
        self._has_model = has_manager or (not self._has_rewards and any(map(run.on, _MODELS)))
        if has_manager or not (self._has_rewards or self._by_source):
            self.unread.append("how the reward of job.config reads the answers")

    @property
    def used(self) -> list[str]:
        return [self._prompt, self._source, "reward_model", "extra_info", *self._pictures]

    def _is_by_source(self, run: RunConfig) -> bool:
        """Return whether verl's own reward function, which depends on the data source, scores the answers."""
        own = ("custom_reward_function.path", "reward.custom_reward_function.path")
        manager = run.at("reward.reward_manager.name") or run.at("reward_model.reward_manager") or "naive"
        return manager in ("naive", "dapo") and not any(map(run.on, (*own, *_MODELS)))

    def of_columns(self, columns: Sequence[str]) -> list[RowFault]:
        found = []
        wanted = (
            (self._prompt, ("data.prompt_key",), "verl/utils/dataset/rl_dataset.py:389 at 0.9.1"),
            (self._source, self._source_keys, _OF_MANAGER.format(42)),
            ("reward_model", (), _OF_MANAGER.format(43)),
        )
        for column, keys, source in wanted[:1] if self._has_model else wanted:
            if column in columns:
                continue
            self._absent.add(column)
            names = _listed(columns)
            what = (
                f"{f'{keys[0]} is' if keys else 'verl reads the column'} {quoted(column)}, and the columns are {names}"
            )
            why = f"the run ends when it reads it: every pod has started ({source})"
            found.append(RowFault("data/column-missing", what, (*keys, *self._data), why, self._fix(column, columns)))
        return found

    def _fix(self, column: str, columns: Sequence[str] = ()) -> str:
        if column == "reward_model":
            best = _guess(columns, _ANSWERS)
            said = f"what {best} has" if best else "…"
            return f'write a column reward_model: {{"style": "rule", "ground_truth": "{said}"}}'
        if column == self._source:
            return f"write a column {column}: {answers.GSM8K}, or a name of your own with job.rewards"
        best = _guess(columns, ("messages", "conversation", "chat"))
        if best:
            return f"write job.config.data.prompt_key: {best}"
        return f"{_CHAT} into a column {column}, as task prepare-data does"

    def of_row(self, row: Mapping[str, Json]) -> Iterator[RowFault]:
        if self._prompt not in self._absent:
            yield from self._of_prompt(row.get(self._prompt))
        source = row.get(self._source)
        if self._source not in self._absent and not self._has_model:
            yield from self._of_source(source)
        if "reward_model" not in self._absent and not self._has_model:
            yield from self._of_answer(row.get("reward_model"), source)
        extra = row.get("extra_info")
        if extra is not None and not isinstance(extra, dict):
            what = f"column extra_info has {_type(extra)}, and verl reads a map"
            why = "the run ends when it reads the row (verl/utils/dataset/rl_dataset.py:402 at 0.9.1)"
            yield RowFault("data/wrong-type", what, self._data, why, 'write {"index": 0}, or leave the column out')

    def _of_prompt(self, value: Json) -> Iterator[RowFault]:
        keys = ("data.prompt_key", *self._data)
        if value is None or value in ("", []):
            yield _empty(f"column {self._prompt}", keys)
            return
        if not (isinstance(value, list) and all(_is_message(each, _TURN) for each in value)):
            what = f"column {self._prompt} has {_type(value)}, and verl reads a list of chat messages"
            why = "the chat template of the model is filled from it (verl/utils/dataset/rl_dataset.py:389 at 0.9.1)"
            yield RowFault("data/wrong-type", what, keys, why, f"{_CHAT}, as task prepare-data does")
            return
        if all(_is_missing(each.get("content")) for each in value):
            yield _empty(f"column {self._prompt}", keys)

    def _of_source(self, value: Json) -> Iterator[RowFault]:
        if not isinstance(value, str):
            what = f"column {self._source} has {_type(value)}, and verl reads a text"
            why = f"it chooses the reward ({_OF_MANAGER.format(42)})"
            yield RowFault("data/wrong-type", what, (*self._source_keys, *self._data), why, self._fix(self._source))
        elif self._by_source and not answers.has_own_judge(value):
            what = f"{self._source} is {quoted(value[:80])}, and verl has no reward for it"
            why = "the run ends at its first reward (verl/utils/reward_score/__init__.py:107 at 0.9.1)"
            fix = "set job.rewards, for instance {right: {builtin: exact_answer}}, or write a name that verl knows"
            yield RowFault("data/source-without-reward", what, ("=job.rewards", *self._data), why, fix)

    def _of_answer(self, value: Json, source: Json) -> Iterator[RowFault]:
        if not isinstance(value, dict) or "ground_truth" not in value:
            is_map = isinstance(value, dict)
            what = f"column reward_model has {'no ground_truth' if is_map else _type(value)}, and verl reads it there"
            why = f"the run ends at its first reward ({_OF_MANAGER.format(43)})"
            yield RowFault("data/wrong-type", what, self._data, why, self._fix("reward_model"))
            return
        truth = value["ground_truth"]
        judges = [*self._rewards, *(answers.of_source(source) if self._by_source else ())]
        fix = _fix_of_answer(truth, "the final number alone")
        yield from _unreadable(judges, truth, "reward_model.ground_truth", self._data, fix)

    def question(self, row: Mapping[str, Json]) -> str | None:
        value = row.get(self._prompt)
        if isinstance(value, list):
            value = "\n".join(str(each.get("content")) for each in value if isinstance(each, dict))
        if not isinstance(value, str):
            return None
        pictures = [row[name] for name in self._pictures if row.get(name)]
        # Many pictures have the same question.
        more = (*pictures, mapping(row.get("reward_model")).get("ground_truth")) if pictures else ()
        return "\n".join((value.strip(), *(hashlib.sha256(repr(each).encode()).hexdigest() for each in more)))

    def expected(self, row: Mapping[str, Json]) -> Expected:
        truth = mapping(row.get("reward_model")).get("ground_truth")
        return Expected(truth, row.get(self._source), row.get("extra_info"))


def _is_message(value: Json, parts: Sequence[str] = ("content",)) -> bool:
    return isinstance(value, dict) and "role" in value and any(part in value for part in parts)


def _said(role: Json) -> str:
    return f"role {role}" if role in (*_NO_QUESTION, "user") else "another role"


def _empty(place: str, keys: tuple[str, ...]) -> RowFault:
    why = "the model gets a prompt without a question, and learns nothing from it"
    return RowFault("data/empty-question", f"{place} is empty", keys, why, "remove these rows", ends=False)


def _type(value: Json) -> str:
    names = {type(None): "null", bool: "a boolean", str: "a text", list: "another list", dict: "a map"}
    return names.get(type(value), "a number")


def _fix_of_answer(value: Json, form: str) -> str:
    """Return what to write: the number at the end of a solution, if there is one."""
    found = final_answer(value) if isinstance(value, str) else ""
    if found:
        return f"write {form}: {found} here; task prepare-data does it, and reward exact_answer finds it by its mark"
    return f"write {form}, as a text"
