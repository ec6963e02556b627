"""A machine is bought in a way in which it is sold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values import capacity
from grpo.values.derived import mapping
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("nodes", framework="", source="")
_KIND: Final = "platform.capacity.kind"


@TOPIC.problem(f"={_KIND}", fails=Fails.PENDING, source=capacity.SOURCE, severity=WARNING)
def not_sold_on_demand(run: RunConfig) -> Iterator[Finding]:
    """the machine is not sold on demand

    Why: the node pool cannot be created, or its pods stay pending; a pool that exists and uses a reservation works
    Fix: set platform.capacity.kind to how you have bought the machines
    """
    # Nothing is asked by the default: the guide and the notes of network say it there.
    if run.value(_KIND) != capacity.ON_DEMAND or not run.is_later(f"={_KIND}", "=accelerator.name"):
        return
    accelerator = mapping(run.value("accelerator"))
    sold = capacity.instead({"platform": run.value("platform"), "accelerator": accelerator})
    if sold:
        names = ", ".join(sold)
        what = f"{_KIND} is on-demand, and Google sells {accelerator.get('machineType')} by {names} only"
        yield Finding(what, keys=[f"={_KIND}"])
