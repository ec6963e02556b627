"""The stream must be for the machine that the values are for."""

from __future__ import annotations

from postrender.pods import accelerators
from postrender.rules import ERROR, Hit, Manifests, Rule, at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def check(manifests: Manifests) -> Iterator[Hit]:
    """Find pods that take as many GPUs as a node has and select another machine, in a stream that selects no other."""
    wiring = manifests.wiring
    if wiring is None or not wiring.gpus or any(True for _ in manifests.whole_pods()):
        return
    for item, pod in manifests.pods():
        if pod.gpu_container()[1] == wiring.gpus and (others := wiring.others(accelerators(pod.spec))):
            said = (
                f"the pod selects {', '.join(sorted(others))}, and the values are for {wiring.profile} ({wiring.label})"
            )
            yield at(item, (*pod.path, "spec"), said)


RULE = Rule(
    "nodes/another-accelerator",
    severity=ERROR,
    title="the pods select another machine than the values",
    why="what --set changes is not in the values files: no pod of the stream would be wired",
    fix="give the values of the machine that the pods select, or change the selector",
    source="https://cloud.google.com/kubernetes-engine/docs/how-to/gpus",
    check=check,
)
