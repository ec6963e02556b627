"""Folders of the driver on the node, and shared memory: volumes of the pod and mounts of its container."""

from __future__ import annotations

from postrender.pods import mapping, sequence
from postrender.transforms import Target, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PARTS = ("subPath", "subPathExpr")


def apply(target: Target) -> None:
    """Add volumes and mounts; a folder that is mounted already keeps the name of its volume.

    A volume that has one of our names and is something else stays what it is, and ours gets another name.
    """
    spec, container = target.pod.spec, target.container
    volumes, mounts = sequence(spec.get("volumes")), sequence(container.get("volumeMounts"))
    names = {volume["name"]: _name(volume, volumes, mounts, target) for volume in target.wiring.volumes}
    wanted = [{**volume, "name": names[volume["name"]]} for volume in target.wiring.volumes]
    paths = {mount["mountPath"]: _of(mounts, mount["mountPath"]) for mount in target.wiring.mounts}
    wanted_mounts = [
        {
            **mount,
            "name": names[mount["name"]],
            "mountPath": paths[mount["mountPath"]].get("mountPath", mount["mountPath"]),
        }
        for mount in target.wiring.mounts
    ]
    put(spec, "volumes", target.decisions.named(target.place("spec.volumes"), volumes, wanted))
    place = target.container_place("volumeMounts")
    put(container, "volumeMounts", target.decisions.named(place, mounts, wanted_mounts, key="mountPath"))


def _name(volume: dict[str, Any], volumes: list[Any], mounts: list[Any], target: Target) -> str:
    """Return the name of the volume that is mounted where ours belongs, or a name that no other volume has."""
    name = str(volume["name"])
    path = next(mount["mountPath"] for mount in target.wiring.mounts if mount["name"] == name)
    there = _of(mounts, path)
    # A part of a volume is mounted: what the rest of it is for, is not ours to say.
    if there and not any(key in there for key in _PARTS):
        return str(there.get("name", name))
    taken = next((each for each in map(mapping, volumes) if each.get("name") == name), volume)
    return name if taken == volume else f"{name}-wiring"


def _of(mounts: list[Any], path: str) -> dict[str, Any]:
    """Return the mount at a path, which may be written with a slash at its end; empty where there is none."""
    return next((each for each in map(mapping, mounts) if str(each.get("mountPath")).rstrip("/") == path), {})
