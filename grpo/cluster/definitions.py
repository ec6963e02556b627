"""Read which fields a KubeRay kind has from its definition; the API server drops all others."""

from __future__ import annotations

from typing import Any, Final

from postrender.manifests.pods import mapping, sequence
from postrender.types import Json

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS: Final = (f"{_CRDS}/rayclusters.ray.io", f"{_CRDS}/rayjobs.ray.io")
# A pod template has thousands of fields, which every version knows.
_LEFT_OUT: Final = ("template", "submitterPodTemplate")

Fields = dict[str, Any]


def shortened(definition: Json) -> dict[str, Any]:
    """Return a CustomResourceDefinition's name, kind and, by version, fields, without the fields of pods."""
    spec = mapping(mapping(definition).get("spec"))
    return {
        "metadata": {"name": mapping(mapping(definition).get("metadata")).get("name")},
        "kind": mapping(spec.get("names")).get("kind"),
        "versions": {
            str(each.get("name")): _fields(mapping(mapping(each.get("schema")).get("openAPIV3Schema")))
            for each in map(mapping, sequence(spec.get("versions")))
        },
    }


def _fields(schema: dict[str, Any]) -> Fields:
    """Return the fields below a schema by name; a list's fields are those of its items."""
    inner = mapping(schema.get("items")) or schema
    found = mapping(inner.get("properties"))
    return {name: {} if name in _LEFT_OUT else _fields(mapping(each)) for name, each in found.items()}


def unknown(item: Json, fields: Fields, path: str = "") -> list[str]:
    """Return the paths of an object's fields that its definition does not have."""
    if isinstance(item, list):
        return list(dict.fromkeys(each for entry in item for each in unknown(entry, fields, path)))
    found = []
    for name, value in mapping(item).items() if fields else ():
        where = f"{path}.{name}" if path else str(name)
        found += unknown(value, fields[name], where) if name in fields else [where]
    return found
