"""What the installed accelerator profiles say of machines, for pods that select another one than the values are for."""

from __future__ import annotations

from postrender import paths, textio, yamlfast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_machines: dict[str, Machine] = {}


class Machine:
    """Hold the facts of one profile that rules compare; `rdma` is how many of the `interfaces` NCCL uses."""

    __slots__ = ("gpus", "interfaces", "label", "name", "rdma", "tuner")

    def __init__(self, accelerator: Mapping[str, Any]) -> None:
        interfaces = accelerator.get("interfaces") or {}
        self.name = str(accelerator["name"])
        self.label = str(accelerator["label"])
        self.gpus = int(accelerator["gpusPerNode"])
        self.tuner = str((accelerator.get("nccl") or {}).get("tunerConfig") or "")
        self.interfaces = len(interfaces)
        self.rdma = sum(each.get("deviceMode") == "RDMA" for each in interfaces.values())


def by_label() -> Mapping[str, Machine]:
    """Return the machines by the node label `cloud.google.com/gke-accelerator`."""
    if not _machines:
        for name in paths.accelerators():
            tree = yamlfast.parse(textio.read_bytes(paths.accelerator(name)).decode("utf-8"))
            machine = Machine(tree["accelerator"])
            if machine.label:
                _machines[machine.label] = machine
    return _machines
