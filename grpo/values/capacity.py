"""Know how Google sells its machines.

Sources, checked 2026-11: docs.cloud.google.com/ai-hypercomputer/docs/consumption-models (future reservations: A4X, A4
and A3 Ultra; calendar mode: A4 and A3 Ultra; flex-start and Spot: every GPU machine but A4X), and
docs.cloud.google.com/compute/docs/accelerator-optimized-machines. On demand these machines are not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from grpo.values.derived import mapping

ON_DEMAND: Final = "on-demand"
SOURCE: Final = "https://docs.cloud.google.com/ai-hypercomputer/docs/consumption-models"
_ALL: Final = ("reservation", "flex-start", "queued", "spot")
# The kinds of platform.capacity of the machines that are not sold on demand; others are not known.
_SOLD: Final = {
    "a3-ultragpu-8g": _ALL,
    "a4-highgpu-8g": _ALL,
    "a4x-highgpu-4g": ("reservation",),
    "a4x-maxgpu-4g-metal": ("reservation",),
}


def kinds(accelerator: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of capacity in which a machine is sold; empty if that is not known."""
    return _SOLD.get(str(accelerator.get("machineType")), ())


def instead(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the machine of values with their defaults is sold, if not as they ask; else nothing."""
    platform = mapping(values.get("platform"))
    sold = kinds(mapping(values.get("accelerator")))
    is_google = str(platform.get("kind")).startswith("gke-")
    return sold if is_google and mapping(platform.get("capacity")).get("kind") not in sold else ()
