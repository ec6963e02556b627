"""The init container that fails where the node lacks what NCCL needs: bash says nothing of a missing BASH_ENV."""

from __future__ import annotations

from postrender.pods import sequence
from postrender.transforms import Target, put


def apply(target: Target) -> None:
    """Add the init container, first of all, with the image and the mounts of the container."""
    wanted = target.wiring.check_node(target.image)
    if wanted is None:
        return
    names = {mount.get("mountPath"): mount.get("name") for mount in target.container.get("volumeMounts", [])}
    mounts = [{**mount, "name": names.get(mount["mountPath"], mount["name"])} for mount in wanted["volumeMounts"]]
    there = sequence(target.pod.spec.get("initContainers"))
    place = target.place("spec.initContainers")
    checked = target.decisions.named(place, there, [{**wanted, "volumeMounts": mounts}])
    put(target.pod.spec, "initContainers", checked)
