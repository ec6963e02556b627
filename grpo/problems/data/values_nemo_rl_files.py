"""Data files: those that ResponseDataset reads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import data_sections
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_PATHS: Final = ("data_path", "train_data_path", "val_data_path")
_OLD: Final = (".json", ".jsonl")
_READ: Final = (*_OLD, ".arrow", ".csv", ".parquet", ".txt")
# Other endings may belong to the name of a folder.
_KNOWN: Final = (*_READ, ".bz2", ".gz", ".pkl", ".tsv", ".xlsx", ".xz", ".yaml", ".yml", ".zip", ".zst")


@TOPIC.problem(
    "data.train.data_path data.train_data_path data.val_data_path data",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/datasets/utils.py:93 at v0.7.0",
)
def data_file(run: RunConfig) -> Iterator[Finding]:
    """this version of NeMo RL cannot read a data file of this kind

    Fix: use a JSON lines file; from v0.6.0 on Parquet, CSV, Arrow and text work too
    """
    reads = _READ if run.since("v0.6.0") else _OLD
    for path, section in data_sections(run):
        for key in _PATHS if section.get("dataset_name") == "ResponseDataset" else ():
            ending = os.path.splitext(str(section.get(key)))[1]
            # Another rule knows what task prepare-data writes.
            if ending in _KNOWN and ending not in reads and "GRPO_DATASETS" not in str(section[key]):
                what = f"{path}.{key} is {section[key]}, and {run.version} reads {', '.join(reads)}"
                yield Finding(what, keys=[f"{path}.{key}", path], fix="convert it to JSON lines (.jsonl)")
