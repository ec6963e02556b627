"""Data sets: what each class reads from its entry, its splits, its validation share, its prompt files."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import data_sections, validates
from postrender import spelling
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig

_SIZE: Final = "split_validation_size"
_PROMPTS: Final = ("prompt_file", "system_prompt_file")
# Keys that are read for every data set, and the seed of a split, which does no harm without one.
_OF_ALL: Final = ("dataset_name", "env_name", "processor", "seed", *_PROMPTS)
_LOADERS: Final = ("num_prompts_per_dataloader", "custom_dataloader")
# The arguments that decide which rows a data set has.
_CHOOSING: Final = ("data_path", "data_files", "subset", "split", "max_samples")
# Splits that a class checks, or that its data set on Hugging Face has.
_SPLITS: Final = {
    "OpenMathInstruct-2": ("train", "train_1M", "train_2M", "train_5M"),
    "gsm8k": ("train", "test"),
    "GSM8K": ("train", "test"),
    "squad": ("train", "validation"),
    "HelpSteer3": ("train", "validation"),
    "clevr-cogent": ("train", "valA", "valB"),
    "daily-omni": ("train",),
    "geometry3k": ("train", "validation", "test"),
    "refcoco": ("train", "validation"),
    "mmpr-tiny": ("train",),
    "audiomcq": ("train", "validation"),
    "avqa": ("train", "validation"),
}
_OLD_SPLITS: Final = {
    "openmathinstruct2": _SPLITS["OpenMathInstruct-2"],
    "clevr-cogent": ("trainA", "trainB", "valA", "valB"),
    "clevr_cogent": ("trainA", "trainB", "valA", "valB"),
    "geometry3k": _SPLITS["geometry3k"],
    "refcoco": ("default",),
}
_FILES: Final = (".json", ".jsonl")
# The columns of a JSONL file of task prepare-data, and where ResponseDataset looks for a text by default.
_PREPARED: Final = re.compile(r"\$\{oc\.env:GRPO_DATASETS\}/([^/$]+)/[^/$]+\.jsonl")
_COLUMNS: Final = ("question", "answer", "task_name")
_TEXTS: Final = {"input_key": ("input", "question"), "output_key": ("output", "answer")}
_MORE_FILES: Final = (*_FILES, ".arrow", ".csv", ".parquet", ".txt")


def splits_off_validation(run: RunConfig) -> bool:
    """Return whether a training data set sets aside a share of its rows for validation."""
    for path, section in data_sections(run):
        known = run.catalogue.datasets.get(str(section.get("dataset_name")))
        share = section.get(_SIZE, (known or {}).get("validation", 0))
        if path == "data.train" and share and (known is None or _SIZE in known["arguments"]):
            return True
    return False


@TOPIC.problem(
    "data.train data.train_data_path data",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/datasets/response_datasets/__init__.py:114 at v0.7.0",
)
def data_key_missing(run: RunConfig) -> Iterator[Finding]:
    """a data entry lacks a key that its data set needs

    Fix: add the key to the entry, or to data.default
    """
    for path, section in data_sections(run):
        known = run.catalogue.datasets.get(str(section.get("dataset_name")), {})
        for key in known.get("required", ()):
            if key not in section:
                what = f"{path}: the data set {section['dataset_name']} needs {key}, which is not given"
                yield Finding(what, keys=[f"{path}.dataset_name", path])


@TOPIC.problem(
    "data.train.input_key data.train.output_key data.input_key data.output_key",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/datasets/response_datasets/response_dataset.py:81 at v0.7.0",
)
def column_not_prepared(run: RunConfig) -> Iterator[Finding]:
    """NeMo RL reads a column that the prepare-data task does not write

    Fix: set input_key: question and output_key: answer, whatever the source's columns are called
    """
    entries = mapping(run.value("job.prepareData"))
    for path, section in data_sections(run):
        files = [section.get(key) for key in ("data_path", "train_data_path", "val_data_path")]
        names = [found[1] for file in files if isinstance(file, str) and (found := _PREPARED.fullmatch(file))]
        if section.get("dataset_name") != "ResponseDataset" or not any(map(entries.get, names)):
            continue
        for key, (default, right) in _TEXTS.items():
            column = section.get(key, default)
            if isinstance(column, str) and "${" not in column and column not in _COLUMNS:
                given = "" if key in section else ", its default"
                what = f"{path}.{key} is {quoted(column)}{given}, and the prepared files have {', '.join(_COLUMNS)}"
                keys = [f"{path}.{name}" for name in (key, "data_path", "train_data_path")]
                yield Finding(what, keys=[*keys, path], proposed={f"{path}.{key}": right} if key in section else {})


@TOPIC.problem(
    "data.train data.validation data",
    fails=Fails.SILENT,
    source="nemo_rl/data/datasets/response_datasets/__init__.py:114 at v0.7.0",
    severity=WARNING,
)
def data_key_unread(run: RunConfig) -> Iterator[Finding]:
    """a data entry has a key that its data set does not read

    Why: the data set's class ignores the key, and loads its rows as if the key were missing
    Fix: remove the key, or choose a data set that reads it: ResponseDataset reads files and Hugging Face names
    """
    base = mapping(run.catalogue.base.get("data"))
    for path, name, given in _given_entries(run):
        # A configuration that is written out whole has what the base file has.
        own = mapping(base.get(path.partition(".")[2]))
        for key in given:
            is_read = key in _OF_ALL or run.catalogue.data_set_reads(name, key)
            if not is_read and _is_meant(run, key, given[key], own.get(key)):
                what = f"{path}.{key} is {quoted(given[key])}, and the data set {name} does not read it"
                fix = f"remove {key}; if another file brings it, write {key}: null"
                yield Finding(what, keys=[f"{path}.{key}", path], fix=fix)


def _is_meant(run: RunConfig, key: str, value: object, base: object) -> bool:
    """Return whether a key has an effect: a disabled option, or the split that is loaded anyway, does no harm."""
    return value not in (None, 0, "", base) and not (key == "split" and value == "train" and run.since("v0.6.0"))


def _given_entries(run: RunConfig) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the path, data set and keys of each entry that the files set; the defaults for all entries are skipped."""
    data = mapping(run.given.get("data"))
    if not run.since("v0.6.0"):
        yield "data", str(run.at("data.dataset_name")), data
        return
    for section in ("train", "validation"):
        entries = data.get(section)
        for entry in entries if isinstance(entries, list) else [entries]:
            if isinstance(entry, dict):
                name = entry.get("dataset_name", mapping(run.at(f"data.{section}")).get("dataset_name"))
                yield f"data.{section}", str(name), entry


@TOPIC.problem(
    "data.train.split data.split data",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/datasets/response_datasets/openmathinstruct2.py:41 at v0.7.0",
    logs="Please use 'train', 'train_1M', 'train_2M', or 'train_5M",
)
def split_(run: RunConfig) -> Iterator[Finding]:
    """the data set does not have the named split

    Fix: use one of its splits
    """
    table = _SPLITS if run.since("v0.6.0") else _OLD_SPLITS
    for path, section in data_sections(run):
        name, given = str(section.get("dataset_name")), section.get("split")
        known = table.get(name)
        if known and isinstance(given, str) and "${" not in given and given not in known:
            what = f"{path}.split is {quoted(given)}, and {name} has {', '.join(known)}"
            yield Finding(what, keys=[f"{path}.split", f"{path}.dataset_name", path])


@TOPIC.problem(
    "data.train.split data.train_split data",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/datasets/utils.py:91 at v0.7.0",
)
def split_of_file(run: RunConfig) -> Iterator[Finding]:
    """a subset, or a split other than train, is set for a file

    Fix: remove the key, or set it to null
    """
    files = _MORE_FILES if run.since("v0.6.0") else _FILES
    pairs = (("data_path", "split"), ("data_path", "subset"), ("data_files", "split"), ("data_files", "subset"))
    old = (("train_data_path", "train_split"), ("val_data_path", "val_split"))
    for path, section in data_sections(run):
        if section.get("dataset_name") not in ("ResponseDataset", "arrow_text"):
            continue
        for file, key in pairs if run.since("v0.6.0") else old:
            name, given = section.get(file), section.get(key)
            is_wrong = isinstance(given, str) and given and not (key != "subset" and given == "train")
            if isinstance(name, str) and os.path.splitext(name)[1] in files and is_wrong:
                what = f"{path}.{key} is {quoted(given)}, and {file} is a file, {name}"
                yield Finding(what, keys=[f"{path}.{key}", f"{path}.{file}", path])


@TOPIC.problem(
    "data.default.prompt_file data.prompt_file data",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/interfaces.py:71 at v0.7.0",
)
def prompt_file(run: RunConfig) -> Iterator[Finding]:
    """prompt_file or system_prompt_file names a file that is not in the image

    Fix: define your own prompt under job.prompts, and refer to it as ${oc.env:GRPO_PROMPTS}/NAME.txt
    """
    if not str(run.value("images.training.repository")).endswith("/nemo-rl"):
        # An image of one's own may have more files.
        return
    seen: set[tuple[str, object]] = set()
    for path, section in data_sections(run):
        for key in _PROMPTS:
            file = section.get(key)
            if file == "" and (key, file) not in seen:
                seen.add((key, file))
                what = f"{key} is an empty text, which is not the name of a file"
                yield Finding(what, keys=[f"{path}.{key}", f"data.default.{key}", path], fix="write null for no prompt")
            is_relative = isinstance(file, str) and file and file[0] not in "/~$"
            if is_relative and os.path.normpath(str(file)) not in run.catalogue.names["prompts"]:
                if (key, file) in seen:
                    continue
                seen.add((key, file))
                stems = {_stem(name): name for name in run.catalogue.names["prompts"]}
                close = spelling.near(_stem(str(file)), stems)
                fix = f"did you mean {stems[close[0]]}?" if close else ""
                known = ", ".join(map(os.path.basename, stems.values()))
                what = f"{key} is {file}, and examples/prompts of the image has {known}"
                yield Finding(what, keys=[f"{path}.{key}", f"data.default.{key}", path], fix=fix)


def _stem(file: str) -> str:
    return os.path.splitext(os.path.basename(file))[0]


@TOPIC.problem(
    f"data.use_multiple_dataloader {' '.join(f'data.{name}' for name in _LOADERS)}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/dataloader.py:57 at v0.7.0",
    since="v0.6.0",
)
def data_loaders(run: RunConfig) -> Iterator[Finding]:
    """several data loaders are on, but their size or the function that chooses among them is missing

    Fix: add data.num_prompts_per_dataloader and data.custom_dataloader, or set use_multiple_dataloader to false
    """
    missing = [name for name in _LOADERS if run.at(f"data.{name}") is None]
    if run.on("data.use_multiple_dataloader") and missing:
        yield Finding(f"use_multiple_dataloader is on, and {' and '.join(missing)} is not given")


@TOPIC.problem(
    " ".join(f"data.{name}" for name in _LOADERS),
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:332 at v0.7.0",
    severity=WARNING,
    since="v0.6.0",
)
def data_loaders_unread(run: RunConfig) -> Iterator[Finding]:
    """settings for several data loaders are given, but their switch is off

    Why: one loader mixes all data sets by their sizes, and the function is never called
    Fix: set data.use_multiple_dataloader to true, or remove the key
    """
    for name in _LOADERS:
        if not run.on("data.use_multiple_dataloader") and run.at(f"data.{name}") is not None:
            yield Finding(f"data.{name} is given, and use_multiple_dataloader is off", keys=[f"data.{name}"])


@TOPIC.problem(
    "data.validation data.val_data_path data.train data.train_data_path",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:408 at v0.7.0",
    severity=WARNING,
)
def validation_on_training_data(run: RunConfig) -> Iterator[Finding]:
    """validation uses the rows that the run trains on

    Why: accuracy rises with what the model has memorized, and the best checkpoint is chosen by that accuracy
    Fix: use another split or another file, or split_validation_size if the data set reads it
    """
    if not validates(run):
        return
    if not run.since("v0.6.0"):
        paths = [run.at(f"data.{name}_data_path") for name in ("train", "val")]
        if run.at("data.dataset_name") == "ResponseDataset" and paths[0] and paths[0] == paths[1]:
            yield Finding(f"train_data_path and val_data_path are both {paths[0]}", keys=["data.val_data_path"])
        return
    sections = data_sections(run)
    trained = [rows for path, section in sections if path == "data.train" and (rows := _rows(run, section))]
    for path, section in sections:
        if path == "data.validation" and (rows := _rows(run, section)) and rows in trained:
            split = f", split {rows['split']}" if "split" in rows else ""
            what = f"data.train and data.validation are both {rows.get('data_path') or section['dataset_name']}{split}"
            keys = [f"{path}.{name}" for name in ("data_path", "split") if name in rows]
            yield Finding(what, keys=[*keys, f"{path}.dataset_name", path])


def _rows(run: RunConfig, section: Mapping[str, Any]) -> dict[str, object] | None:
    """Return what determines which rows an entry loads; None if it skips some rows, or if its class is unknown."""
    known = run.catalogue.datasets.get(str(section.get("dataset_name")))
    if known is None or section.get(_SIZE, known.get("validation", 0)):
        return None
    names = [name for name in known["arguments"] if name in _CHOOSING]
    rows = {name: section.get(name) for name in names}
    if "split" in rows:
        rows["split"] = rows["split"] or "train"
    return {"dataset_name": section["dataset_name"], **rows}
