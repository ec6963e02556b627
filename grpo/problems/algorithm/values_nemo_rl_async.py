"""What asynchronous training silently loses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import PROMPTS
from postrender.finding import WARNING
from postrender.problem import Fails

if TYPE_CHECKING:
    from grpo.values.config import RunConfig

_ASYNC: Final = "grpo.async_grpo.enabled"
_AGE: Final = "grpo.async_grpo.max_trajectory_age_steps"
_EPOCHS: Final = "grpo.max_num_epochs"


@TOPIC.problem(
    f"=job.attempt =job.retries {_ASYNC}",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:4199 at v0.7.0",
    severity=WARNING,
)
def async_resume(run: RunConfig) -> str | None:
    """asynchronous training loses prompts when it resumes

    Why: a checkpoint counts prompts as trained while their answers are still being generated (NeMo RL PR 3599)
    Fix: accept the lost prompts and save rarely, or train synchronously; no version that we have read fixes this
    """
    attempt, retries = run.value("job.attempt"), run.value("job.retries")
    resumes = (isinstance(attempt, int) and attempt > 1) or (isinstance(retries, int) and retries > 0)
    if not resumes or not run.on(_ASYNC) or not run.on("checkpointing.enabled"):
        return None
    # Versions before v0.7.0 do not save the finished answers that wait for their step, either.
    lost = run.integer(PROMPTS) * run.integer(_AGE)
    how = f"job.attempt is {attempt}" if isinstance(attempt, int) and attempt > 1 else f"job.retries is {retries}"
    return f"{how}, and each time that asynchronous training resumes it skips about {lost} prompts"


@TOPIC.problem(
    f"{_EPOCHS} {_ASYNC}",
    fails=Fails.LATER,
    source="nemo_rl/algorithms/async_utils/trajectory_collector.py:252 at v0.7.0",
    severity=WARNING,
)
def async_epochs(run: RunConfig) -> str | None:
    """max_num_epochs is above 1, but asynchronous training reads the data once

    Why: when the data ends, no more answers are generated, and training waits for one with all its GPUs reserved
    Fix: set grpo.max_num_steps to the steps of one epoch or fewer, and max_num_epochs to 1
    """
    epochs = run.integer(_EPOCHS) if run.on(_ASYNC) else 1
    return f"max_num_epochs is {epochs}, and asynchronous training does not read it" if epochs > 1 else None
