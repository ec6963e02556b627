"""Tell the objects of the values' stack from those of other stacks, which the values say nothing about."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from grpo.manifests.loader import ManifestDocument
from grpo.values.job_cluster import StackWiring
from postrender import paths
from postrender.finding import Finding
from postrender.gate import object_twice
from postrender.gate.manifests import Item
from postrender.manifests.apiserver import NO_NAMESPACE
from postrender.manifests.pods import mapping, objects
from postrender.wiring.plan import Wiring

_STACK: Final = "app.kubernetes.io/part-of"
_CHART: Final = "app.kubernetes.io/name"
# Folders that a line names.
_SHOWN: Final = 3
_OF_STACK: Final = "give one of the two stacks another stack.name"
# How an object of a layer gets a name of its own.
_OWN_NAME: Final = {
    "network": "install the layer network of one of the two stacks only; for other machines set network.names.prefix, "
    "network.gvnic.prefix and network.rdma.prefix in one of them",
    "storage": _OF_STACK,
    "raycluster": _OF_STACK,
    "grpo-job": "give one of the two runs another job.name",
}


def stack_of(item: Mapping[str, Any]) -> str:
    """Return the stack of an object of these charts; empty for any other object, whatever it is a part of."""
    return str(_labels(item).get(_STACK) or "") if _labels(item).get(_CHART) in paths.LAYERS else ""


def folder_of(file: str) -> str:
    """Return the folder of the stack that a file is a part of, above the folders of its layers."""
    folder = os.path.dirname(file)
    return os.path.dirname(folder) if os.path.basename(folder) in paths.LAYERS else folder


def own_name(item: Mapping[str, Any]) -> str:
    """Say in words how one of two objects that have the same name gets a name of its own."""
    return _OWN_NAME.get(str(_labels(item).get(_CHART)), "rename one of the two, or remove it")


def _labels(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(item.get("metadata")).get("labels"))


def others(items: Iterable[Mapping[str, Any]], wiring: Wiring | None) -> set[str]:
    """Return the stacks among the objects that are not the values': neither theirs nor that of their RayCluster."""
    if not isinstance(wiring, StackWiring) or not wiring.stack:
        return set()
    items = [*items]
    own = {"", wiring.stack}
    if wiring.cluster:
        own |= {stack_of(item) for item in items if _is_cluster(item, wiring.cluster.name)}
    return {stack_of(item) for item in items} - own


def _is_cluster(item: Mapping[str, Any], name: str) -> bool:
    return item.get("kind") == "RayCluster" and mapping(item.get("metadata")).get("name") == name


def item_of(finding: Finding, items: Sequence[Item]) -> Item | None:
    """Return the object with a finding; None for a finding of a whole text that has several."""
    place = finding.place
    within = [each for each in items if each.document == place.document and place.path[: len(each.path)] == each.path]
    return within[0] if len(within) == 1 else None


def left_out(streams: Iterable[Sequence[ManifestDocument]], wiring: Wiring | None) -> list[str]:
    """Say in words which stacks were not judged against the values."""
    every = [item for documents in streams for document in documents for _, item in objects(document.plain)]
    found = sorted(others(every, wiring))
    if not found or not isinstance(wiring, StackWiring):
        return []
    return [f"{', '.join(found)} against the values, which are of the stack {wiring.stack}"]


def has_owner(identity: tuple[str, ...]) -> bool:
    """Return whether an object is the same one wherever it is applied: its namespace is written, or it has none."""
    return bool(identity[2]) or identity[:2] in NO_NAMESPACE


def not_compared(word: str, streams: Sequence[Sequence[ManifestDocument]]) -> list[str]:
    """Say in words that several stacks below one folder have the same object: they may be for several clusters."""
    seen: dict[tuple[str, ...], set[str]] = {}
    for documents in streams:
        for document in documents:
            stack = folder_of(document.file)
            for _, item in objects(document.plain):
                identity = object_twice.identity_of(item)
                if stack_of(item) and identity and has_owner(identity):
                    seen.setdefault(identity, set()).add(stack)
    shared = [each for each in seen.values() if len(each) > 1]
    named = sorted({folder for each in shared for folder in each})
    if not shared:
        return []
    shown = " ".join(named[:_SHOWN]) + (" …" if len(named) > _SHOWN else "")
    are = "object is" if len(shared) == 1 else "objects are"
    return [f"{len(shared)} {are} in several stacks below {word}: if these are for one cluster, grpo check {shown}"]
