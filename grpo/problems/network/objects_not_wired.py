"""GPU pods that the post-renderer does not connect to their machine's network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import WARNING, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests import pods
from postrender.manifests.pods import GPU, mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.wiring import apply, plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path, Pod
    from postrender.wiring.plan import Wiring

# Kinds whose pods work together as a rule, also with one GPU each.
_TOGETHER: Final = (*pods.RAY, "JobSet", "LeaderWorkerSet")
_SEVERAL: Final = 2


def check(manifests: Manifests) -> Iterator[Finding]:
    """Use the wiring's verdict, which it also writes into the annotation of an object that it passes on."""
    wiring = manifests.wiring
    for item in manifests.items if wiring else ():
        notes = mapping(mapping(item.object.get("metadata")).get("annotations"))
        if wiring is None or str(notes.get(apply.STAMP)).lower() == apply.SKIP:
            continue
        # What an option of the post-renderer named is wired, and has its stamp alone.
        is_done = apply.STAMP in notes and apply.NOT_WIRED not in notes
        found = [*_unfit(item, wiring), *(() if is_done else _strays(item, manifests))]
        for path, reason in found:
            what = f"{'.'.join(map(str, path)) or 'the pod'} {reason}"
            yield item.finding(path, what)._replace(fix=plan.FIXES.get(reason, ""))


def _unfit(item: Item, wiring: Wiring) -> Iterator[tuple[Path, str]]:
    for pod in item.pods:
        # The values do not describe another machine; nodes/another-accelerator judges who selects one.
        if _communicates(item, pod) and (reason := wiring.unfit(pod)) and not wiring.foreign_labels(pod.spec):
            yield pod.path, reason


def _communicates(item: Item, pod: Pod) -> bool:
    """Return whether GPUs exchange data: a single GPU (a shell, an evaluation) needs no network and no NCCL."""
    count = pod.gpu_container()[1]
    return count >= _SEVERAL or (count > 0 and item.object.get("kind") in _TOGETHER and pod.count != 1)


def _strays(item: Item, manifests: Manifests) -> Iterator[tuple[Path, str]]:
    """Find pods in third-party kinds, whose number is unknown; those with one GPU each may be anything: skip them."""
    if GPU in manifests.texts[item.document]:
        for path, count in pods.strays(item.object, item.pods):
            if count >= _SEVERAL:
                yield path, apply.stray(str(item.object.get("kind")), path, count)


RULE = Problem(
    "network/not-wired",
    target=OBJECTS,
    severity=WARNING,
    fails=Fails.COSTS,
    title="grpo-post-render gives a pod with GPUs no network of its machine",
    why="without interfaces and NCCL settings its GPUs reach those of other pods over TCP, many times slower",
    fix="let one container take all GPUs of a node; if this is intended, annotate the object with "
    "grpo-charts/wiring: skip",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
