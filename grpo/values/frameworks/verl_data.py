"""Read the training data of a verl run: the files written by task prepare-data, their rows, and the steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from grpo.values import row_counts
from grpo.values.derived import mapping
from grpo.values.frameworks.verl import BATCH, has_new_trainer
from grpo.values.reference_errors import UnknownError
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from grpo.values.config import RunConfig

STEPS: Final = "trainer.total_training_steps"
EPOCHS: Final = "trainer.total_epochs"
# How many prompts are read at once.
READ: Final = "data.gen_batch_size"
TRAIN_SAMPLES: Final = "data.train_max_samples"
_PREPARED: Final = re.compile(r"\$\{oc\.env:GRPO_DATASETS\}/([^/$]+)/train\.parquet")
# Rows of the training split. Source: the data set's page.
_ROWS: Final = {"openai/gsm8k": 7473}


def files(run: RunConfig, key: str) -> list[str]:
    """Return file names as written, unresolved: only the running job knows the folder that precedes them."""
    given = value_at(run.config, ("data", key))
    return [file for file in (given if isinstance(given, list) else [given]) if isinstance(file, str)]


def prepared(run: RunConfig) -> list[dict[str, Any]]:
    """Return the entries of job.prepareData that the run trains on; none if it also trains on other files."""
    trained = files(run, "train_files")
    names = [found[1] for file in trained if (found := _PREPARED.fullmatch(file))]
    entries = mapping(run.value("job.prepareData"))
    known = [mapping(entries.get(name)) for name in names]
    return known if len(known) == len(trained) and all(known) else []


def rows(run: RunConfig) -> int:
    """Return the number of rows that the run trains on; raise UnknownError if it is unknown."""
    each = [_ROWS.get(str(entry.get("repository"))) for entry in prepared(run)]
    if not each or None in each:
        raise UnknownError("data.train_files")
    found, most = sum(one or 0 for one in each), most_rows(run)
    return min(found, most) if most else found


def counted_rows(run: RunConfig) -> int:
    """Return the rows that the run trains on, by the user's count of its files, or as `rows` does."""
    each = [row_counts.of(file) for file in files(run, "train_files")]
    if not each or None in each:
        return rows(run)
    found, most = sum(one or 0 for one in each), most_rows(run)
    return min(found, most) if most else found


def most_rows(run: RunConfig) -> int:
    """Return the maximum number of rows that the run uses of its data; 0 if it uses all rows."""
    # verl takes all rows with a number below 1 (utils/dataset/rl_dataset.py).
    most = run.at(TRAIN_SAMPLES)
    return most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else 0


def batch(run: RunConfig) -> int:
    """Return the number of prompts of a step; in an epoch, the 0.9 trainer counts no other batches."""
    is_own = run.at(READ) and not has_new_trainer(run)
    return run.integer(READ if is_own else BATCH)


def batches(run: RunConfig) -> list[str]:
    """Return the keys of the batches that the run's data must fill."""
    if not run.at(READ) or takes_prompts_singly(run):
        return [BATCH]
    return [BATCH, READ] if has_new_trainer(run) else [READ]


def takes_prompts_singly(run: RunConfig) -> bool:
    """Return whether the 0.9 trainer reads prompts one at a time (trainer/ppo/v1/trainer_base.py:733 at 0.9.1)."""
    refills = run.on("algorithm.filter_groups.enable") or run.on("trainer.v1.sampler.sync_refill_failed_groups")
    return has_new_trainer(run) and (refills or run.at("trainer.v1.trainer_mode") != "sync")


def steps_of_data(run: RunConfig, count: int) -> int:
    """Return the steps in the run's epochs over this many rows; trailing rows that do not fill a batch are dropped."""
    size = batch(run)
    return run.integer(EPOCHS) * (count // size) if size > 0 else 0


def steps_of_run(run: RunConfig) -> int:
    """Return the run's number of steps; raise UnknownError if it depends on data that is unknown."""
    return run.integer(STEPS) if run.at(STEPS) is not None else steps_of_data(run, counted_rows(run))
