"""The init container that fails where the node lacks what NCCL needs: bash says nothing of a missing BASH_ENV."""

from __future__ import annotations

from postrender.pods import mapping, sequence
from postrender.transforms import Target, put


def apply(target: Target) -> None:
    """Add the init container, first of all, with the image and the mounts of the container."""
    wanted = target.wiring.check_node(target.image)
    if wanted is None:
        return
    there = map(mapping, sequence(target.container.get("volumeMounts")))
    at = {str(mount.get("mountPath")).rstrip("/"): mount for mount in there}
    # It looks at what the container will see, a part of a volume included.
    mounts = [{**mount, **at.get(mount["mountPath"], {}), "readOnly": True} for mount in wanted["volumeMounts"]]
    containers = sequence(target.pod.spec.get("initContainers"))
    place = target.place("spec.initContainers")
    checked = target.decisions.named(place, containers, [{**wanted, "volumeMounts": mounts}])
    put(target.pod.spec, "initContainers", checked)
