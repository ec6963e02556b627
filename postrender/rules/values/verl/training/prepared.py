"""Data that task prepare-data writes: its columns, and the steps that it gives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from postrender.finding import WARNING, Finding
from postrender.rules.values.checks import quoted
from postrender.rules.values.verl.run import BATCH, TOPIC
from postrender.values.derived import mapping
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.values.config import Effective

_PREPARED: Final = re.compile(r"\$\{oc\.env:GRPO_DATASETS\}/([^/$]+)/train\.parquet")
_COLUMNS: Final = ("data_source", "prompt", "ability", "reward_model", "extra_info")
# Rows of the training split. Source: the data set's page.
_ROWS: Final = {"openai/gsm8k": 7473}
_STEPS: Final = "trainer.total_training_steps"
_EPOCHS: Final = "trainer.total_epochs"


def _entries(run: Effective) -> list[dict[str, Any]]:
    """Return the entries of job.prepareData that the run trains on; none if it trains on other files too."""
    given = value_at(run.config, ("data", "train_files"))
    files = given if isinstance(given, list) else [given]
    names = [found[1] for file in files if (found := _PREPARED.fullmatch(str(file)))]
    entries = mapping(run.value("job.prepareData"))
    known = [mapping(entries.get(name)) for name in names]
    return known if len(known) == len(files) and all(known) else []


@TOPIC.rule(
    "column-not-prepared",
    "D1",
    "data.prompt_key data.reward_fn_key",
    title="a column that the configuration names is one that prepare-data writes",
    why="the run ends when it reads its data: the cluster is up, and its GPUs are paid for",
    fix="remove the key: its default is a column of the prepared files",
    source="utils/dataset/rl_dataset.py:304 at 0.7.1",
)
def _columns(run: Effective) -> Iterator[Finding]:
    # Later versions read data_source, whatever the second key says.
    keys = ("prompt_key",) if run.since("0.7.1") else ("prompt_key", "reward_fn_key")
    own_class = run.at("data.custom_cls.path") is not None
    for key in keys if _entries(run) and not own_class else ():
        column = run.at(f"data.{key}")
        if column not in _COLUMNS:
            what = f"data.{key} is {quoted(column)}, and the prepared files have {', '.join(_COLUMNS)}"
            yield Finding(what, keys=[f"data.{key}"])


@TOPIC.rule(
    "more-steps-than-data",
    "D1",
    f"{_STEPS} {_EPOCHS}",
    title="the epochs give the steps",
    why="silent: the run ends early, without the checkpoint and the validation of its last step",
    fix="lower total_training_steps, or raise total_epochs",
    source="trainer/ppo/ray_trainer.py:1286 at 0.7.1",
    severity=WARNING,
)
def _steps(run: Effective) -> str | None:
    rows = [_ROWS.get(str(entry.get("repository"))) for entry in _entries(run)]
    if run.at(_STEPS) is None or not rows or None in rows:
        return None
    batch = run.integer("data.gen_batch_size") if run.at("data.gen_batch_size") else run.integer(BATCH)
    total, epochs = sum(each or 0 for each in rows), run.integer(_EPOCHS)
    steps = epochs * (total // batch) if batch > 0 else 0
    if not 0 < steps < run.integer(_STEPS):
        return None
    what = f"total_training_steps is {run.integer(_STEPS)}, and {total} rows give {steps} steps of {batch} prompts"
    return f"{what} in {epochs} epoch{'s' if epochs > 1 else ''}"
