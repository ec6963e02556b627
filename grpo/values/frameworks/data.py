"""Describe in a few words what data a run trains on; the chart's template grpo.dataWords gives the same description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.values.derived import mapping

if TYPE_CHECKING:
    from grpo.values.config import RunConfig
    from postrender.types import Json

_PREPARED: Final = "${oc.env:GRPO_DATASETS}/"
_FILES: Final = ("data_path", "train_data_path", "data_files")


def words(run: RunConfig) -> str:
    """Return the training data sets or files, separated by commas; empty if none is known."""
    given = mapping(run.config.get("data"))
    if run.framework == "verl":
        entries = _listed(given.get("train_files"))
    else:
        entries = [_of_entry(each) for each in _listed(given.get("train", given))]
    named = [str(each).removeprefix(_PREPARED) for each in entries if isinstance(each, str)]
    return ", ".join(dict.fromkeys(named))


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _of_entry(entry: Json) -> Json:
    section = mapping(entry)
    return next((section[key] for key in _FILES if section.get(key)), section.get("dataset_name"))
