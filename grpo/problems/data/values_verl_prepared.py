"""A run's data: the columns and steps of what the prepare-data task writes, what its reward returns, and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.verl import TOPIC
from grpo.values.derived import mapping
from grpo.values.frameworks import verl_data
from grpo.values.frameworks.verl import BATCH, ROLLOUT, validates
from grpo.values.frameworks.verl_data import EPOCHS, STEPS, TRAIN_SAMPLES
from postrender.counting import counted
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_COLUMNS: Final = ("data_source", "prompt", "ability", "reward_model", "extra_info")


@TOPIC.problem(
    "data.prompt_key data.reward_fn_key", fails=Fails.AT_SETUP, source="utils/dataset/rl_dataset.py:389 at 0.9.1"
)
def column_not_prepared(run: RunConfig) -> Iterator[Finding]:
    """the configuration names a column that the prepared files do not have

    Why: the run ends when it reads its data, with the cluster already running and billing
    Fix: remove the key: its default is a column in the prepared files
    """
    # Later versions read data_source, whatever the second key says.
    keys = ("prompt_key",) if run.since("0.7.1") else ("prompt_key", "reward_fn_key")
    own_class = run.at("data.custom_cls.path") is not None
    for key in keys if verl_data.prepared(run) and not own_class else ():
        column = run.at(f"data.{key}")
        if column not in _COLUMNS:
            what = f"data.{key} is {quoted(column)}, and the prepared files have {', '.join(_COLUMNS)}"
            yield Finding(what, keys=[f"data.{key}"])


@TOPIC.problem(
    f"{BATCH} data.gen_batch_size {TRAIN_SAMPLES}",
    fails=Fails.AT_SETUP,
    source="trainer/ppo/v1/trainer_base.py:765 at 0.9.1",
)
def batch_larger_than_data(run: RunConfig) -> Iterator[Finding]:
    """the training data has fewer rows than one batch

    Why: the run ends before its first step: "Train dataloader is empty", or from 0.9.1 on a division by zero
    Fix: lower the batch size to the data set's number of rows or less
    """
    most = verl_data.most_rows(run)
    short = [key for key in verl_data.batches(run) if 0 < most < run.integer(key)]
    if short:
        # However many rows the files have.
        what = f"{short[0]} is {run.integer(short[0])}, and {TRAIN_SAMPLES} takes {counted(most, 'row')}"
        yield Finding(what, keys=[TRAIN_SAMPLES], fix="raise it to the batch or more, or write -1 for all rows")
    else:
        yield from no_batch(run, verl_data.rows(run))


def no_batch(run: RunConfig, rows: int) -> Iterator[Finding]:
    """Yield the batches that the training rows do not fill."""
    for key in verl_data.batches(run):
        if run.integer(key) > rows:
            what = f"{key} is {run.integer(key)}, and the training data have {counted(rows, 'row')}"
            yield Finding(what, keys=[key])


@TOPIC.problem(
    f"{STEPS} {EPOCHS}", fails=Fails.SILENT, source="trainer/ppo/v1/trainer_base.py:467 at 0.9.1", severity=WARNING
)
def more_steps_than_data(run: RunConfig) -> Iterator[Finding]:
    """total_training_steps is more than the epochs provide

    Why: the run ends early, without the checkpoint and the validation of its last step
    Fix: lower total_training_steps, or raise total_epochs
    """
    if run.at(STEPS) is not None:
        yield from too_few(run, verl_data.rows(run))


def too_few(run: RunConfig, rows: int) -> Iterator[Finding]:
    """Yield a finding if the training rows give fewer steps than the run requires."""
    if run.at(STEPS) is None:
        return
    steps, found = run.integer(STEPS), verl_data.steps_of_data(run, rows)
    if 0 < found < steps:
        given = f"{rows} rows give {counted(found, 'step')} of {verl_data.batch(run)} prompts"
        what = f"total_training_steps is {steps}, and {given} in {counted(run.integer(EPOCHS), 'epoch')}"
        yield Finding(what, keys=[STEPS])


def reward_fields(run: RunConfig) -> list[str]:
    """Return the fields that the reward returns for an answer to verl's 0.9 trainer; empty if unknown."""
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
    is_known = (
        verl_data.prepared(run)
        and not run.on("reward.custom_reward_function.path")
        and not run.on("data.custom_cls.path")
    )
    return ["reward", "acc", *more] if is_known else []


@TOPIC.problem(
    "data.val_files data.train_files",
    fails=Fails.SILENT,
    source="trainer/ppo/v1/trainer_base.py:719 at 0.9.1",
    severity=WARNING,
)
def validation_on_training_data(run: RunConfig) -> Iterator[Finding]:
    """validation uses a file that the run also trains on

    Why: validation scores the rows that the run trains on, so the score rises even if the model learns nothing new
    Fix: use the test file in the same folder, such as ${oc.env:GRPO_DATASETS}/gsm8k/test.parquet
    """
    if not validates(run):
        return
    both = [file for file in verl_data.files(run, "val_files") if file in verl_data.files(run, "train_files")]
    if both:
        yield Finding(f"data.train_files and data.val_files both have {', '.join(both)}")
