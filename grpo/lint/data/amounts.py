"""Compare the number of a run's training rows with its batches, epochs and steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from grpo.lint.data.row_fault import RowFault
from grpo.lint.data.samples import Sample
from grpo.problems.data import values_nemo_rl as nemo_rl
from grpo.problems.data import values_verl_prepared as verl
from grpo.values.config import RunConfig
from grpo.values.frameworks.nemo_rl import data_sections
from postrender.finding import Finding
from postrender.values.merge import value_at

_NEMO_RL: Final = (
    "NeMo RL leaves out an incomplete step, so the run ends {}, with exit code 0"
    " (nemo_rl/algorithms/grpo.py:363 at v0.7.0)"
)
_NO_STEP: Final = "lower job.config.grpo.num_prompts_per_step, or add rows"
_FEW: Final = "lower job.config.grpo.max_num_steps or num_prompts_per_step, raise max_num_epochs, or add rows"
_NO_BATCH: Final = (
    "the run ends before its first step, because verl drops an incomplete batch; the cluster is already running and"
    " billing (verl/trainer/ppo/v1/trainer_base.py:765 at 0.9.1)"
)
_FEW_STEPS: Final = (
    "the run ends early, without the checkpoint and the validation of its last step"
    " (verl/trainer/ppo/v1/trainer_base.py:467 at 0.9.1)"
)


def problems(run: RunConfig, sample: Sample) -> Iterator[RowFault]:
    """Yield what is wrong with the number of training rows, if that number is known.

    Raises UnknownError if only the running job knows a number.
    """
    rows = sample.total
    if rows is not None and run.framework == "verl":
        yield from _of_verl(run, rows)
    elif rows is not None:
        yield from _of_nemo_rl(run, rows)


def _of_nemo_rl(run: RunConfig, rows: int) -> Iterator[RowFault]:
    sections = [section for path, section in data_sections(run) if path != "data.validation"]
    # Of a list, the rows of the other data sets are not known; several loaders have batches of their own.
    if len(sections) != 1 or run.on("data.use_multiple_dataloader"):
        return
    held = sections[0].get("split_validation_size") if run.since("v0.6.0") else None
    kept = rows - _held_out(rows, held)
    for finding in nemo_rl.too_few(run, kept):
        is_none = "grpo.num_prompts_per_step" in finding.keys
        less = f", once data.train.split_validation_size has {rows - kept} of {rows}" if kept < rows else ""
        why = _NEMO_RL.format("at once" if is_none else "early")
        yield _problem(finding, f"{finding.what}{less}", why, _NO_STEP if is_none else _FEW, ends=is_none)


def _held_out(rows: int, size: object) -> int:
    """Return how many training rows NeMo RL holds out for validation: a share, or a number."""
    if not isinstance(size, (int, float)) or isinstance(size, bool) or size <= 0:
        return 0
    return min(rows, int(size) if size >= 1 else math.ceil(size * rows))


def _of_verl(run: RunConfig, rows: int) -> Iterator[RowFault]:
    given = value_at(run.config, ("data", "train_files"))
    if isinstance(given, list) and len(given) != 1:
        return
    most = run.at("data.train_max_samples")
    if isinstance(most, int) and 0 < most < rows:
        rows = most
    for finding in verl.no_batch(run, rows):
        yield _problem(
            finding, finding.what, _NO_BATCH, "lower the batch to these rows or less, or add rows", ends=True
        )
    for finding in verl.too_few(run, rows):
        fix = "lower job.config.trainer.total_training_steps, raise total_epochs, or add rows"
        yield _problem(finding, finding.what, _FEW_STEPS, fix, ends=False)


def _problem(finding: Finding, what: str, why: str, fix: str, *, ends: bool) -> RowFault:
    return RowFault("data/too-few-rows", what, (*finding.keys,), why, fix, ends=ends, is_doubtful=not ends)
