"""Two documents must not define the same object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postrender.finding import ERROR, Finding, Place
from postrender.gate.manifests import Item, Manifests
from postrender.manifests.apiserver import NO_NAMESPACE
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare group, kind, namespace, name and hooks; the API server generates a name for an object without one."""
    seen: dict[tuple[str, ...], int] = {}
    for item in manifests.items:
        identity = identity_of(item.object)
        if identity is None:
            continue
        if identity in seen:
            yield again(item, identity, manifests.name(seen[identity]))
        seen.setdefault(identity, item.document)


def again(item: Item, identity: tuple[str, ...], first: str) -> Finding:
    """Return the finding for an object that already exists in `first`."""
    what = f"{item.title} is already in {first}{_ignored(item.object, identity)}"
    return Finding(what, place=Place(item.document, (*item.path, "metadata", "name")))


def identity_of(item: dict[str, Any]) -> tuple[str, ...] | None:
    """Return an object's group, kind, namespace, name and hooks; None if the API server generates its name."""
    metadata = mapping(item.get("metadata"))
    if not metadata.get("name") or not item.get("kind"):
        return None
    group = str(item.get("apiVersion", "")).rpartition("/")[0]
    hooks = str(mapping(metadata.get("annotations")).get("helm.sh/hook", ""))
    named = ",".join(sorted(hook.strip() for hook in hooks.split(",")))
    kind, namespace = str(item["kind"]), metadata.get("namespace")
    if not namespace or (group, kind) in NO_NAMESPACE:
        namespace = ""
    return group, kind, str(namespace), str(metadata["name"]), named


def _ignored(item: dict[str, Any], identity: tuple[str, ...]) -> str:
    """Return a note if the object's namespace is ignored; else an empty text."""
    written = mapping(item.get("metadata")).get("namespace") if identity[:2] in NO_NAMESPACE else None
    return f"; the kind has no namespaces ({written} is ignored)" if written else ""


RULE = Problem(
    "stream/object-twice",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_ADMISSION,
    title="two documents describe the same object",
    why="the later one silently replaces the earlier one, or the install fails halfway",
    fix="rename one of the two, or remove it",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",
    check=check,
)
