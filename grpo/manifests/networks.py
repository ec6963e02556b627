"""Say which networks of GKE a change takes away from pods that name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from postrender import json_text
from postrender.counting import counted
from postrender.manifests import apiserver, pods
from postrender.manifests.apiserver import Object
from postrender.manifests.pods import mapping
from postrender.types import Json
from postrender.values.profiles import INTERFACES

_KIND: Final = ("networking.gke.io", "Network")


def gone(before: Iterable[Object], after: Iterable[Object]) -> Iterator[tuple[str, str, str]]:
    """Yield the first network that is gone though pods that stay name it, with why it matters and the fix."""
    after = [*after]
    removed = {str(mapping(item.get("metadata")).get("name")) for item in _networks(before)}
    removed -= {str(mapping(item.get("metadata")).get("name")) for item in _networks(after)}
    users = {_title(item): found for item in after if removed and (found := removed & named(item))}
    lost = sorted({name for found in users.values() for name in found})
    if lost:
        more = f" and {counted(len(lost) - 1, 'other network')}" if len(lost) > 1 else ""
        are = "them" if more else "it"
        why = f"a tool that prunes deletes it{more}, and pods of {', '.join(users)} name {are}: new pods do not start"
        fix = "keep these files, or render the layer network of a stack that stays, in the same change"
        yield f"{_KIND[1]}/{lost[0]}", why, fix


def named(item: Object) -> set[str]:
    """Return the networks that the pods of an object name in their annotation."""
    annotations = (mapping(mapping(pod.template.get("metadata")).get("annotations")) for pod in pods.pods(dict(item)))
    return {name for each in annotations for name in _listed(each.get(INTERFACES))}


def _listed(text: Json) -> Iterator[str]:
    try:
        entries = json_text.loads(str(text or "[]"))
    except ValueError:
        return
    for each in entries if isinstance(entries, list) else ():
        yield str(mapping(each).get("network"))


def _networks(items: Iterable[Object]) -> Iterator[Object]:
    return (item for item in items if apiserver.identity(item)[:2] == _KIND)


def _title(item: Object) -> str:
    return "/".join(apiserver.identity(item)[1::2])
