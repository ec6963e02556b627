"""The variables of a container: its own, and those of ConfigMaps in the same stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postrender.manifests.pods import mapping, sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from postrender.gate.manifests import Item, Manifests
    from postrender.manifests.pods import Path

    # Path below the container, name, and the entry as it stands in `env`.
    Variable = tuple[Path, str, dict[str, Any]]


def variables(manifests: Manifests, item: Item, container: Mapping[str, Any]) -> list[Variable]:
    """Return the variables that are known, those of `env` last: of two with one name the last one counts.

    A variable of a ConfigMap has the path of the line that names the ConfigMap.
    """
    shared = [each for found in _shared(manifests, item, container) for each in found or ()]
    own = [
        (("env", at), str(each.get("name", "")), _known(manifests, item, each))
        for at, each in enumerate(map(mapping, sequence(container.get("env"))))
    ]
    return shared + own


def is_complete(manifests: Manifests, item: Item, container: Mapping[str, Any]) -> bool:
    """Return whether the stream has all that a container takes variables from."""
    return None not in _shared(manifests, item, container)


def _shared(manifests: Manifests, item: Item, container: Mapping[str, Any]) -> Iterator[list[Variable] | None]:
    """Yield the variables of each source in `envFrom`, None for one that is elsewhere or a Secret."""
    for at, source in enumerate(map(mapping, sequence(container.get("envFrom")))):
        name = mapping(source.get("configMapRef")).get("name")
        data = _data(manifests, item, str(name)) if name else None
        if data is None:
            yield None
            continue
        prefix = str(source.get("prefix") or "")
        entries = [{"name": f"{prefix}{key}", "value": str(value)} for key, value in data.items()]
        yield [(("envFrom", at), entry["name"], entry) for entry in entries]


def _known(manifests: Manifests, item: Item, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the value that a ConfigMap of the stream gives it."""
    key = mapping(mapping(entry.get("valueFrom")).get("configMapKeyRef"))
    data = _data(manifests, item, str(key.get("name"))) if key else None
    value = (data or {}).get(str(key.get("key")))
    return entry if value is None else {"name": entry.get("name"), "value": str(value)}


def _data(manifests: Manifests, item: Item, name: str) -> dict[str, Any] | None:
    """Return what a ConfigMap of the namespace of an object holds; None if the stream has no such ConfigMap."""
    namespace = mapping(item.object.get("metadata")).get("namespace")
    for each in manifests.of_kinds(["ConfigMap"]):
        metadata = mapping(each.object.get("metadata"))
        # Helm and kubectl put both into one namespace where only one of them names it.
        if metadata.get("name") == name and (metadata.get("namespace") or namespace) == (
            namespace or metadata.get("namespace")
        ):
            return mapping(each.object.get("data"))
    return None
