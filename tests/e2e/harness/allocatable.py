"""What machines offer to pods by their vendors' figures: tests/e2e/allocatable.yaml, and the formulas that it names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parents[1] / "allocatable.yaml"
GIB = 2**30
PODS = "110"
PAGES = "hugepages-2Mi"
# Of the first so many GiB, and cores, the first share, and so on; the last share is that of the rest.
OF_MEMORY = ((4.0, 0.25), (4.0, 0.2), (8.0, 0.1), (112.0, 0.06), (float("inf"), 0.02))
OF_CORES = ((1.0, 0.06), (1.0, 0.01), (2.0, 0.005), (float("inf"), 0.0025))
# A struct page of 64 bytes for each page of 4 KiB.
PAGE_STRUCTS = 1 / 64


@cache
def offered(name: str) -> dict[str, str]:
    """Return what a node of a machine offers, as far as it is known: nothing for a machine without an entry."""
    machine = yaml.safe_load(FILE.read_text())["machines"].get(name)
    if machine is None:
        return {}
    plain = machine.get("allocatable") or FORMULAS[machine["reserved"]](machine)
    return {"pods": PODS, **{key: str(amount) for key, amount in {**plain, **machine["offers"]}.items()}}


def tiers(amount: float, shares: Sequence[tuple[float, float]]) -> float:
    """Add up shares of the parts of an amount."""
    taken = 0.0
    for size, share in shares:
        part = min(amount, size)
        taken, amount = taken + part * share, amount - part
    return taken


def gke(machine: dict[str, Any]) -> dict[str, str]:
    """Take off what the kernel and GKE keep for themselves."""
    total = machine["total"]
    kernel = total["memory"] * PAGE_STRUCTS + (80 + min(0.00175 * total["memory"] * 1024, 248)) / 1024
    memory = total["memory"] - kernel * (0.9971 if machine.get("arm") else 1)
    memory -= tiers(memory, OF_MEMORY) + 100 / 1024 + huge_pages(machine)
    if "ssd" in total:
        disk = total["ssd"] * 0.99
        kept = 100.0
    else:
        disk = total["boot"] * (1 - 0.016) - 4.25
        kept = min(0.5 * total["boot"], 6 + 0.35 * total["boot"], 100)
    return quantities(total["cpu"] - tiers(total["cpu"], OF_CORES), memory, disk * 0.9 - kept)


def aks(machine: dict[str, Any]) -> dict[str, str]:
    """Take off what the kernel and AKS keep for themselves."""
    total = machine["total"]
    memory = total["memory"] * (1 - PAGE_STRUCTS) - (20 * 250 + 50) * 10**6 / GIB - 100 / 1024
    return quantities(total["cpu"] - 0.74, memory, total["disk"] * 0.9)


def kernel(machine: dict[str, Any]) -> dict[str, str]:
    """Take off only what the kernel keeps for itself."""
    total = machine["total"]
    return quantities(
        total["cpu"], total["memory"] * (1 - PAGE_STRUCTS), total["disk"] * 0.9 if "disk" in total else None
    )


FORMULAS = {"gke": gke, "aks": aks, "kernel": kernel}


def huge_pages(machine: dict[str, Any]) -> int:
    """Return the GiB of huge pages, which the kubelet takes off the memory."""
    return int(str(machine["offers"].get(PAGES, "0Gi")).removesuffix("Gi"))


def quantities(cores: float, memory: float, disk: float | None) -> dict[str, str]:
    """Write cores and GiB as Kubernetes does, rounded down."""
    found = {"cpu": f"{int(cores * 1000 + 0.001)}m", "memory": f"{int(memory * 1024)}Mi"}
    return found if disk is None else {**found, "ephemeral-storage": f"{int(disk)}Gi"}
