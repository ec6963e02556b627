"""Compute what must exist before objects are installed: what they name, but neither they nor their operators create."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grpo.manifests.needs import references
from grpo.manifests.needs.references import Reference
from postrender.manifests.apiserver import NO_NAMESPACE, plural
from postrender.manifests.pods import mapping
from postrender.manifests.schemas import Kinds
from postrender.values import mutations

DEFINITION: Final = "CustomResourceDefinition"
# What every cluster and every namespace has.
_THERE: Final = {
    ("ServiceAccount", "default"),
    ("ConfigMap", "kube-root-ca.crt"),
    ("PriorityClass", "system-cluster-critical"),
    ("PriorityClass", "system-node-critical"),
}
_WITHOUT_NAMESPACE: Final = {kind for _, kind in NO_NAMESPACE}


@dataclass(frozen=True)
class Source:
    """Where a reference occurs: the object, and the reference in it."""

    item: Mapping[str, Any]
    reference: Reference

    @property
    def title(self) -> str:
        """Return the object's kind and name."""
        return f"{self.item.get('kind')} {mapping(self.item.get('metadata')).get('name', '')}"

    def __str__(self) -> str:
        return f"{self.title}: {mutations.dotted(self.reference.path)}"


@dataclass(frozen=True)
class Need:
    """One object that must exist: its kind, its name, and its namespace (empty for a kind without namespaces).

    `keys` are the keys read from a Secret or a ConfigMap, none if it is read as a whole. `sources` are the places that
    name it; for a definition, they are the objects of its kind.
    """

    kind: str
    name: str
    namespace: str
    keys: tuple[str, ...]
    sources: tuple[Source, ...]

    @property
    def variables(self) -> dict[str, str]:
        """Return the keys that variables use, each with its first variable."""
        taken = [each.reference for each in self.sources if each.reference.is_variable]
        return {key: each.taken_by for each in reversed(taken) for key in each.keys}


def needs(objects: Iterable[Mapping[str, Any]], namespace: str) -> list[Need]:
    """Return what objects name but nothing creates, sorted by kind and name.

    `namespace` applies to objects that set none. Optional references are left out.
    """
    given = list(objects)
    made = set(_made(given, namespace))
    found: dict[tuple[str, str, str], list[Source]] = {}
    for item, reference in references.of_objects(given):
        key = (reference.kind, reference.name, _namespace(reference.kind, item, namespace))
        if key not in made and key[:2] not in _THERE:
            found.setdefault(key, []).append(Source(item, reference))
    for item, name in _definitions(given):
        if (DEFINITION, name, "") not in made:
            found.setdefault((DEFINITION, name, ""), []).append(Source(item, Reference(DEFINITION, name, ("kind",))))
    return [Need(*key, _keys(sources), tuple(sources)) for key, sources in sorted(found.items())]


def _namespace(kind: str, item: Mapping[str, Any], default: str) -> str:
    is_without = kind in _WITHOUT_NAMESPACE
    return "" if is_without else str(mapping(item.get("metadata")).get("namespace") or default)


def _made(objects: Iterable[Mapping[str, Any]], default: str) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, name and namespace of the objects, and of what operators create for them."""
    for item in objects:
        kind, spec = str(item.get("kind")), mapping(item.get("spec"))
        name = str(mapping(item.get("metadata")).get("name", ""))
        namespace = _namespace(kind, item, default)
        yield kind, name, namespace
        if kind == "RayCluster" and mapping(spec.get("authOptions")).get("mode") == "token":
            yield "Secret", name, namespace
        if kind == "ComputeDomain":
            template = mapping(mapping(spec.get("channel")).get("resourceClaimTemplate"))
            yield "ResourceClaimTemplate", str(template.get("name", "")), namespace


def _definitions(objects: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield each object whose kind is not built into Kubernetes, with the name of the kind's definition."""
    kinds = Kinds()
    for item in objects:
        version, kind = str(item.get("apiVersion") or ""), str(item.get("kind"))
        if "/" in version and not kinds.is_of_kubernetes(version):
            yield item, f"{plural(kind)}.{version.rpartition('/')[0]}"


def _keys(sources: Sequence[Source]) -> tuple[str, ...]:
    return tuple(sorted({key for each in sources for key in each.reference.keys}))
