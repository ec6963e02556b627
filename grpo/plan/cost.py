"""The cost of a run's GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from grpo.values.derived import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

_HOUR = 3600


class StepTime(NamedTuple):
    """How long a step took on the run's machines, and the source of that time."""

    seconds: float
    source: str


class Cost(NamedTuple):
    """Dollars for all of a run's GPUs, at a price per GPU hour; `steps` is 0 if their number is unknown."""

    price: float
    gpus: int
    step_time: StepTime | None = None
    steps: int = 0

    @property
    def hour(self) -> float:
        """Return the dollars per hour, busy or idle."""
        return self.price * self.gpus

    @property
    def day(self) -> float:
        """Return the dollars per day."""
        return 24 * self.hour

    @property
    def step(self) -> float | None:
        """Return the dollars per step, or None if the time of a step is unknown."""
        return self.hour * self.step_time.seconds / _HOUR if self.step_time else None

    @property
    def run(self) -> float | None:
        """Return the dollars for all steps."""
        return self.step * self.steps if self.step is not None and self.steps else None


def price(run: RunConfig) -> float | None:
    """Return the price per GPU hour from the values, or None if they set none."""
    found = run.value("platform.pricePerGpuHour")
    return found if isinstance(found, int | float) and found > 0 else None


def step_time(run: RunConfig) -> StepTime | None:
    """Return the step time from the values for this machine, number of nodes and model, or None if they have none."""
    return step_time_of(mapping(run.value("job.stepTimes")), run.accelerator, run.nodes, run.model)


def step_time_of(times: Mapping[str, Any], accelerator: str, nodes: int, model: Json) -> StepTime | None:
    """Return a model's step time on so many nodes from a section `job.stepTimes`, or None if it has none."""
    found = mapping(times.get(accelerator))
    seconds = found.get("seconds")
    is_of_run = found.get("nodes") == nodes and found.get("model") in (None, model)
    if not is_of_run or not isinstance(seconds, int | float) or seconds <= 0:
        return None
    return StepTime(seconds, str(found.get("source") or "your values"))
