"""Whether the workers use all GPUs of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values.derived import mapping
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values import profiles
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig
    from postrender.values.profiles import Machine

TOPIC: Final = Topic("job", framework="", source="")
_GPUS: Final = "accelerator.gpusPerNode"


def _machine(run: RunConfig) -> Machine | None:
    """Return the machine that the labels select; None if no profile has these labels or if the GPU counts differ."""
    labels = mapping(run.value("accelerator.nodeSelector"))
    found = profiles.chosen({label: {str(value)} for label, value in labels.items()})
    return found[0] if len({each.gpus for each in found}) == 1 else None


@TOPIC.problem(
    f"={_GPUS} =accelerator.worker", fails=Fails.COSTS, source="values/accelerators at 0.1.0", severity=WARNING
)
def gpus_left_idle(run: RunConfig) -> Iterator[Finding]:
    """the workers on a node leave some of its GPUs idle

    Why: each node's idle GPUs are billed too, but no other worker fits on the node
    Fix: use the profile's number of GPUs, or split the worker's CPUs and memory too, as in values/examples/one-gpu.yaml
    """
    machine = _machine(run)
    if machine is None or not 0 < run.gpus < machine.gpus:
        return
    workers = min(machine.gpus // run.gpus, _beside(run, machine))
    idle = machine.gpus - workers * run.gpus
    if idle > 0:
        fits = "one worker fits" if workers == 1 else f"{workers} workers fit"
        what = f"{_GPUS} is {run.gpus}, a node of {machine.name} has {machine.gpus}, and {fits} on it: {idle} stay idle"
        yield Finding(what, keys=[f"={_GPUS}"], fix=_fix(run, machine.gpus))


def _fix(run: RunConfig, node: int) -> str:
    rest = "; or divide CPUs and memory of the worker too" if run.value("network.mode") == "none" else ""
    return f"write {node}, or choose a machine that has {run.gpus}{rest}"


def _beside(run: RunConfig, machine: Machine) -> int:
    """Return how many workers fit on a node by CPUs, memory and network; at least one."""
    if run.value("network.mode") in profiles.modes(mapping(run.value("accelerator"))):
        # A worker takes all RDMA interfaces of its node.
        return 1
    # Where the profile does not say what a node has, it has room for the worker of the profile and little more.
    room = {"cpu": machine.cpu or machine.worker[0], "memory": machine.memory or machine.worker[1]}
    fits = []
    for name, has in room.items():
        node, worker = quantity(has), quantity(run.value(f"accelerator.worker.{name}"))
        fits += [int(node // worker)] if node and worker else []
    return max(1, min(fits, default=machine.gpus))
