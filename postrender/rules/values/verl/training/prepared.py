"""The data of a run: columns and steps of what task prepare-data writes, what its reward returns, the validation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from postrender.counting import counted
from postrender.finding import WARNING, Finding
from postrender.rules.values.checks import quoted
from postrender.rules.values.verl.run import TOPIC
from postrender.values.derived import mapping
from postrender.values.frameworks.verl import BATCH, ROLLOUT, validates
from postrender.values.merge import value_at
from postrender.values.reference_errors import UnknownError

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
    files = _files(run, "train_files")
    names = [found[1] for file in files if (found := _PREPARED.fullmatch(file))]
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
    "batch-larger-than-data",
    "D1",
    f"{BATCH} data.gen_batch_size",
    title="the data set fills at least one batch",
    why="the run ends at set-up with Train dataloader is empty: the cluster is up, and its GPUs are paid for",
    fix="lower the batch to the rows of the data set or less",
    source="trainer/ppo/ray_trainer.py:368 at 0.7.1",
)
def _one_batch(run: Effective) -> Iterator[Finding]:
    yield from no_batch(run, _rows(run))


def no_batch(run: Effective, rows: int) -> Iterator[Finding]:
    """Yield a finding where rows of training data fill no batch."""
    batch = _batch(run)
    if batch > rows:
        key = "data.gen_batch_size" if run.at("data.gen_batch_size") else BATCH
        yield Finding(f"{key} is {batch}, and the training data have {counted(rows, 'row')}", keys=[key])


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
def _steps(run: Effective) -> Iterator[Finding]:
    if run.at(_STEPS) is not None:
        yield from too_few(run, _rows(run))


def too_few(run: Effective, rows: int) -> Iterator[Finding]:
    """Yield a finding where rows of training data give fewer steps than the run asks for."""
    if run.at(_STEPS) is None:
        return
    steps, found = run.integer(_STEPS), _steps_of_data(run, rows)
    if 0 < found < steps:
        what = (
            f"total_training_steps is {steps}, and {rows} rows give {counted(found, 'step')} of {_batch(run)} prompts"
        )
        yield Finding(f"{what} in {counted(run.integer(_EPOCHS), 'epoch')}", keys=[_STEPS])


def steps_of_run(run: Effective) -> int:
    """Return the steps of the run; raise UnknownError if the data, which give them, are not known."""
    return run.integer(_STEPS) if run.at(_STEPS) is not None else _steps_of_data(run, _rows(run))


def _steps_of_data(run: Effective, rows: int) -> int:
    batch = _batch(run)
    return run.integer(_EPOCHS) * (rows // batch) if batch > 0 else 0


def _rows(run: Effective) -> int:
    """Return the rows of the training data."""
    rows = [_ROWS.get(str(entry.get("repository"))) for entry in _entries(run)]
    if not rows or None in rows:
        raise UnknownError("data.train_files")
    return sum(each or 0 for each in rows)


def _batch(run: Effective) -> int:
    return run.integer("data.gen_batch_size") if run.at("data.gen_batch_size") else run.integer(BATCH)


def reward_fields(run: Effective) -> list[str]:
    """Return what the reward returns for an answer, for verl's trainer of 0.9; nothing if that is not known."""
    manager = run.at("reward.reward_manager.name")
    has_own = run.at("reward.reward_manager.source") != "register" or run.on("reward.reward_model.enable")
    has_own |= run.on(f"{ROLLOUT}.agent.agent_loop_config_path")
    if has_own or manager not in ("naive", "dapo", "gdpo"):
        return []
    more = ["overlong_reward", "overlong"] if manager == "dapo" else []
    rewards = [name for name, entry in mapping(run.value("job.rewards")).items() if entry is not None]
    if rewards:
        return ["reward", "score", "acc", *(f"reward_{name}" for name in rewards), *more]
    # The score of the prepared data is a number.
    is_known = _entries(run) and not run.on("reward.custom_reward_function.path") and not run.on("data.custom_cls.path")
    return ["reward", "acc", *more] if is_known else []


@TOPIC.rule(
    "validation-on-training-data",
    "E53",
    "data.val_files data.train_files",
    title="the validation has data of its own",
    why="silent: the validation scores what the run trains on, so it rises even if the model learns nothing new",
    fix="write the test file of the same folder, such as ${oc.env:GRPO_DATASETS}/gsm8k/test.parquet",
    source="trainer/main_ppo.py:333 at 0.7.1",
    severity=WARNING,
)
def _same(run: Effective) -> Iterator[Finding]:
    if not validates(run):
        return
    both = [file for file in _files(run, "val_files") if file in _files(run, "train_files")]
    if both:
        yield Finding(f"data.train_files and data.val_files both have {', '.join(both)}")


def _files(run: Effective, key: str) -> list[str]:
    """Return file names as they are written: only the running job knows the folder in front of them."""
    given = value_at(run.config, ("data", key))
    return [file for file in (given if isinstance(given, list) else [given]) if isinstance(file, str)]
