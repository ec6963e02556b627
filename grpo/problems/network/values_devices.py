"""A worker requests its own machine's network devices from the device plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values.derived import mapping
from postrender.finding import Finding
from postrender.problem import Fails
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("clouds", framework="", source="")
_RESOURCES: Final = "accelerator.resources"


@TOPIC.problem(f"={_RESOURCES}", fails=Fails.PENDING, source="values/accelerators at 0.1.0")
def devices_of_the_machine(run: RunConfig) -> Iterator[Finding]:
    """a worker requests more network devices than its machine has, or none

    Why: a request above a node's number keeps the pods Pending; with none, NCCL does not find the network in NCCL_NET
    Fix: remove your line: the machine's profile has the number
    """
    known = profiles.devices(str(run.value("accelerator.machineType") or ""))
    if not known or run.value("network.mode") != "devices" or run.value("stack.names.cluster"):
        return
    asked = {name: count for name, count in mapping(run.value(_RESOURCES)).items() if count is not None}
    machine, keys = f"{run.value('accelerator.machineType')} has", [f"={_RESOURCES}"]
    if not asked and run.value("accelerator.nccl.net") and run.nodes:
        # Another device plugin may have another name for them; then there is one.
        for name, count in known.items():
            what = f"{_RESOURCES} has no {name}, {machine} {count}, and NCCL_NET is"
            yield Finding(f"{what} {run.value('accelerator.nccl.net')}", keys=keys)
    for name, count in asked.items():
        # A count of 1 may stand for all devices: the plugin then shares them.
        if known.get(name, 0) > 1 and str(count).isdecimal() and int(count) > known[name]:
            yield Finding(f"{_RESOURCES} asks for {count} {name}, and {machine} {known[name]}", keys=keys)
