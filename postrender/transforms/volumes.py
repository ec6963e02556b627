"""Folders of the driver on the node, and shared memory: volumes of the pod and mounts of its container."""

from __future__ import annotations

from postrender.pods import mapping, sequence
from postrender.transforms import Target, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def apply(target: Target) -> None:
    """Add volumes and mounts; a folder that is mounted already keeps the name of its volume."""
    spec, container = target.pod.spec, target.container
    volumes, mounts = sequence(spec.get("volumes")), sequence(container.get("volumeMounts"))
    wanted = {volume["name"]: volume for volume in target.wiring.volumes}
    # Whoever mounts the folder under another name means the same volume.
    there = {mount["name"]: _of(mounts, mount["mountPath"]) for mount in target.wiring.mounts}
    renamed = [{**volume, "name": there[name].get("name", name)} for name, volume in wanted.items()]
    target_mounts = [
        {**mount, **{key: there[mount["name"]].get(key, mount[key]) for key in ("name", "mountPath")}}
        for mount in target.wiring.mounts
    ]
    put(spec, "volumes", target.decisions.named(target.place("spec.volumes"), volumes, renamed))
    place = target.container_place("volumeMounts")
    put(container, "volumeMounts", target.decisions.named(place, mounts, target_mounts, key="mountPath"))


def _of(mounts: list[Any], path: str) -> dict[str, Any]:
    """Return the mount at a path, which may be written with a slash at its end; empty where there is none."""
    return next((each for each in map(mapping, mounts) if str(each.get("mountPath")).rstrip("/") == path), {})
