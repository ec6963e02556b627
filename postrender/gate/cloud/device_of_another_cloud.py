"""A pod must not request network devices that its machine does not offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import GPU, gpus, machines, names, requested
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Path, Pod


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the requests of containers with GPUs with what the machines selected by the pod offer."""
    wiring = manifests.wiring
    for item, pod in manifests.pods():
        own = {GPU, *(wiring.resources if wiring and not wiring.foreign_labels(pod.spec) else ())}
        asked = [(path, name) for path, name in _requested(pod) if "/" in name and name not in own]
        chosen = machines(pod.spec) if asked else []
        offered = {name for machine in chosen for name in machine.resources}
        others = {name for machine in profiles.machines() for name in machine.resources} - offered if chosen else set()
        for path, name in asked:
            if name in others:
                container = pod.containers()[int(path[-4])].get("name")
                what = f"container {container} requests {name}, and the pod selects {names(chosen)}"
                yield item.finding(path, what)


def _requested(pod: Pod) -> Iterator[tuple[Path, str]]:
    """Yield the path and name of each resource that containers with GPUs request, once per resource."""
    for position, container in enumerate(pod.containers()):
        for name, part in requested(container).items() if gpus(container) else ():
            yield (*pod.path, "spec", "containers", position, "resources", part, name), name


RULE = Problem(
    "network/device-of-another-cloud",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.PENDING,
    title="a pod requests network devices that the selected machine does not have",
    why="no node offers both, and the pod stays pending",
    fix="take the resource of the machine's profile (values/accelerators), or select another machine",
    source="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
    check=check,
)
