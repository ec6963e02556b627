"""The GKE versions that values require.

Sources: Google's guides to custom GKE clusters with A4, A3 Ultra, A4X and A4X Max, to GPUs on Autopilot, to managed
DRANET, to flex-start, and the releases of the CSI drivers for Cloud Storage and Lustre (docs/values.md names them
at each value).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from grpo.values.derived import mapping

STANDARD: Final = "gke-standard"
AUTOPILOT: Final = "gke-autopilot"

# The first version of each minor release that has one; newer minor releases have it.
RDMA: Final = {
    "a4-highgpu-8g": ("1.32.2-gke.1475000",),
    "a3-ultragpu-8g": ("1.31.4-gke.1183000",),
    "a4x-highgpu-4g": ("1.32.8-gke.1108000", "1.33.4-gke.1036000"),
    "a3-megagpu-8g": ("1.30.4-gke.1129000",),
}
_DRANET: Final = {STANDARD: ("1.34.1-gke.1829001",), AUTOPILOT: ("1.35.2-gke.1842000",)}
# Machines whose network came with a later version than DRANET itself.
_DRANET_OF: Final = {"a4x-maxgpu-4g-metal": ("1.34.3-gke.1318000", "1.35.0-gke.2745000")}
_MACHINES: Final = {
    ("g4-standard-384", STANDARD): ("1.34.0-gke.1662000",),
    ("g4-standard-384", AUTOPILOT): ("1.34.1-gke.1829001",),
    ("a4-highgpu-8g", STANDARD): ("1.32.1-gke.1729000",),
    ("a4-highgpu-8g", AUTOPILOT): ("1.32.2-gke.1422000",),
}
_FLEX_START: Final = ("1.32.2-gke.1652000",)
_OF_BUCKETS: Final = ("1.29.3-gke.1093000",)
_WEIGHTS: Final = ("1.34.0-gke.2011000",)
_PROFILES: Final = ("1.35.1-gke.1616000",)
_LUSTRE: Final = ("1.33.2-gke.1072000",)
_VERSION: Final = re.compile(r"(?<!\d)v?(\d+)\.(\d+)\.(\d+)-gke\.(\d+)")

Version = tuple[int, ...]


class Need(NamedTuple):
    """A value, the feature that it requires, and the first version with that feature in each minor GKE release."""

    value: str
    what: str
    versions: tuple[str, ...]


def needs(values: Mapping[str, Any]) -> Iterator[Need]:
    """Yield what values with their defaults require of GKE; nothing for another platform."""
    platform, accelerator = mapping(values.get("platform")), mapping(values.get("accelerator"))
    kind, machine = str(platform.get("kind")), str(accelerator.get("machineType"))
    if kind not in _DRANET:
        return
    if versions := _MACHINES.get((machine, kind)):
        yield Need("accelerator.machineType", f"the machine {machine}", versions)
    mode = mapping(values.get("network")).get("mode")
    if mode == "dranet":
        what = f"dranet on {machine}" if machine in _DRANET_OF else "dranet"
        yield Need("network.mode", what, dranet(machine, kind))
    elif mode == "multiNetwork" and machine in RDMA:
        yield Need("network.mode", f"multiNetwork with RDMA on {machine}", RDMA[machine])
    if mapping(platform.get("capacity")).get("kind") == "flex-start":
        yield Need("platform.capacity.kind", "flex-start", _FLEX_START)
    for name, volume in mapping(values.get("storage")).items():
        yield from _of_volume(f"storage.{name}", mapping(volume))


def dranet(machine: str, kind: str) -> tuple[str, ...]:
    """Return the first versions with DRANET for a machine, by the kind of GKE cluster."""
    return _DRANET_OF.get(machine, _DRANET[kind])


def _of_volume(path: str, volume: Mapping[str, Any]) -> Iterator[Need]:
    if "lustre" in volume:
        yield Need(f"{path}.lustre", "Managed Lustre", _LUSTRE)
    bucket = mapping(volume.get("gcsfuse"))
    if not bucket:
        return
    yield Need(
        f"{path}.gcsfuse", "a bucket: an older sidecar is the first container, which gets the RDMA devices", _OF_BUCKETS
    )
    if bucket.get("purpose") == "weights":
        yield Need(f"{path}.gcsfuse.purpose", "the mount options of weights", _WEIGHTS)
    if bucket.get("storageClassName"):
        yield Need(f"{path}.gcsfuse.storageClassName", "a profile of GKE", _PROFILES)


def read(text: str) -> Version | None:
    """Return a GKE version as numbers; None for another Kubernetes distribution's version."""
    found = _VERSION.search(text)
    return tuple(map(int, found.groups())) if found else None


def has(version: Version, versions: tuple[str, ...]) -> bool:
    """Return whether a version is at least the first one of its minor release, or of the nearest earlier one listed."""
    first = sorted(each for text in versions if (each := read(text)))
    wanted = [each for each in first if each[:2] <= version[:2]]
    return bool(wanted) and version >= wanted[-1]
