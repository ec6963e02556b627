"""Two documents must not be one and the same object."""

from __future__ import annotations

from postrender.pods import mapping
from postrender.rules import ERROR, Hit, Manifests, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def check(manifests: Manifests) -> Iterator[Hit]:
    """Compare group, kind, namespace, name and hooks; an object without a name gets one from the API server."""
    seen: dict[tuple[str, ...], int] = {}
    for item in manifests.items:
        identity = _identity(item.object)
        if identity is None:
            continue
        if identity in seen:
            what = f"{item.title} stands in {manifests.name(seen[identity])} already"
            yield Hit(item.document, what, path=(*item.path, "metadata", "name"))
        seen.setdefault(identity, item.document)


def _identity(item: dict[str, Any]) -> tuple[str, ...] | None:
    metadata = mapping(item.get("metadata"))
    if not metadata.get("name") or not item.get("kind"):
        return None
    group = str(item.get("apiVersion", "")).rpartition("/")[0]
    hooks = str(mapping(metadata.get("annotations")).get("helm.sh/hook", ""))
    named = ",".join(sorted(hook.strip() for hook in hooks.split(",")))
    return group, str(item["kind"]), str(metadata.get("namespace", "")), str(metadata["name"]), named


RULE = Rule(
    "stream/object-twice",
    severity=ERROR,
    title="two documents are the same object",
    why="the later one silently replaces the earlier one, or the install ends halfway",
    fix="rename one of the two, or remove it",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",
    check=check,
)
