"""Count the rows of files for the run that trains on them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from grpo.lint.data import samples
from grpo.lint.data.samples import ROLES, UnjudgedError
from grpo.values import row_counts
from grpo.values.config import RunConfig
from grpo.values.frameworks import verl_data
from grpo.values.frameworks.nemo_rl import train_files
from postrender.errors import InputError, Location


def use(run: RunConfig, given: Sequence[tuple[str, str]]) -> str:
    """Count the rows of the training files, and say why they are of no use; an empty text if they are.

    Raises UnreadableError or InputError for a file that cannot be counted.
    """
    row_counts.use({})
    counted = {file: count(file) for role, file in given if role == ROLES[0]}
    read = [*dict.fromkeys(verl_data.files(run, "train_files") if run.framework == "verl" else train_files(run))]
    if len(counted) < len(read):
        key = "data.train_files" if run.framework == "verl" else "data.train"
        return f"{key} has {len(read)} files: give --data train=FILE for each of them" if counted else ""
    if len(counted) > len(read):
        return f"the run reads {len(read)} files as train, and {len(counted)} are given"
    names = {os.path.basename(file): rows for file, rows in counted.items()}
    if len(names) == len(read) and all(os.path.basename(file) in names for file in read):
        row_counts.use({file: names[os.path.basename(file)] for file in read})
    else:
        # The sum is the same, whichever file is which.
        row_counts.use(dict(zip(read, counted.values(), strict=True)))
    return ""


def count(file: str) -> int:
    """Return the rows of a file; raise UnreadableError or InputError."""
    try:
        return samples.count(file)
    except UnjudgedError as error:
        raise InputError(f"its rows cannot be counted: {error}", at=Location(file), fix=error.fix) from error
