"""Add schemas for more kinds from CustomResourceDefinitions in files, in the checked stream or in a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from grpo.helm import kubectl
from grpo.manifests.loader import ManifestDocument, read, streams
from postrender.errors import InputError, Location
from postrender.manifests import pods
from postrender.manifests.schemas import Kinds, kind_of
from postrender.types import Json

CLUSTER: Final = "cluster"
_KIND: Final = "CustomResourceDefinition"
# Keywords with the same meaning in a structural schema and in draft-07.
_KEPT: Final = (
    *("type", "enum", "required", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("multipleOf", "minProperties", "maxProperties", "uniqueItems"),
)
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_OBJECT: Final = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}


def add(kinds: Kinds, words: Sequence[str]) -> None:
    """Add the definitions named by `--crds`: files, folders, `-`, or `cluster` for those that kubectl lists.

    Raises InputError if there is no definition, UnreadableError if a file cannot be read, and ClusterError if kubectl
    fails.
    """
    for word in dict.fromkeys(words):
        given = [{f"<{CLUSTER}>": kubectl.definitions()}] if word == CLUSTER else streams([word])[word]
        if not add_from(kinds, (document for texts in given for document in read(texts))):
            fix = "give the crds/ folder of the chart or the operator, a file with definitions, or: --crds cluster"
            raise InputError(f"{word} contains no {_KIND}", fix=fix)


def add_from(kinds: Kinds, documents: Iterable[ManifestDocument], only: set[str] | None = None) -> int:
    """Add the definitions in documents, or only those for some kinds; return their number."""
    found = 0
    for document in documents:
        for _, item in pods.objects(document.plain):
            if item.get("kind") == _KIND:
                found += 1
                for kind, schema in _versions(item):
                    if only is None or kind in only:
                        kinds.add(kind, _definition(kind, schema), Location(document.file, document.line + 1))
    return found


def missing(kinds: Kinds, documents: Iterable[ManifestDocument]) -> set[str]:
    """Return the documents' kinds that have no schema."""
    asked = {kind_of(document.plain) for document in documents}
    return {kind for kind in asked if kinds.entry(kind) is None}


def _versions(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kinds, as `group/version/kind`, with their schemas; skip versions without a schema."""
    spec = pods.mapping(item.get("spec"))
    kind = pods.mapping(spec.get("names")).get("kind")
    for version in map(pods.mapping, pods.sequence(spec.get("versions"))):
        schema = pods.mapping(pods.mapping(version.get("schema")).get("openAPIV3Schema"))
        if kind and schema and version.get("served", True):
            yield f"{spec.get('group')}/{version.get('name')}/{kind}", schema


def _definition(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    version, _, name = kind.rpartition("/")
    out = closed(schema)
    out.setdefault("properties", {}).update(
        {
            "apiVersion": {"const": version},
            "kind": {"const": name},
            "metadata": {"$ref": "#/$defs/meta.v1.ObjectMeta"},
            "status": {"type": ["object", "null"]},
        }
    )
    return out


def closed(schema: Json, *, value: bool = True) -> dict[str, Any]:
    """Return the draft-07 form of a structural schema, strict about fields that the API server would prune.

    A null is allowed wherever a field may be absent, because the API server drops it. `value` is false below allOf,
    anyOf, oneOf and not, where unknown fields are allowed. CEL rules are left out. Source:
    https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning
    """
    schema = pods.mapping(schema)
    out: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    for key, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(key) is True and limit in out:
            out[key] = out.pop(limit)
    if schema.get("x-kubernetes-int-or-string"):
        out["type"] = ["integer", "string"]
    properties = pods.mapping(schema.get("properties"))
    if properties:
        # The API server applies defaults before it checks required fields.
        required = [key for key in pods.sequence(schema.get("required")) if not _has_default(properties.get(key))]
        if "required" in out:
            out["required"] = required
        out["properties"] = {
            key: _optional(closed(each, value=value), each, needed=key in required) for key, each in properties.items()
        }
    if value and schema.get("x-kubernetes-embedded-resource"):
        out["properties"] = {**_OBJECT, **out.get("properties", {})}
    if isinstance(schema.get("items"), dict):
        out["items"] = _optional(closed(schema["items"], value=value), schema["items"], needed=True)
    if isinstance(schema.get("not"), dict):
        out["not"] = closed(schema["not"], value=False)
    for key in _COMBINED:
        if isinstance(schema.get(key), list) and not schema.get("x-kubernetes-int-or-string"):
            out[key] = [closed(each, value=False) for each in schema[key]]
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        out["additionalProperties"] = _optional(closed(more, value=value), more, needed=False)
    elif value and more is None and schema.get("type") == "object":
        # The API server drops every other field, and all fields where none is declared.
        out.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
        # Without properties the validator does not report which fields are unknown.
        out.setdefault("properties", {})
    return out


def _has_default(schema: Json) -> bool:
    return "default" in pods.mapping(schema)


def _optional(out: dict[str, Any], schema: Json, *, needed: bool) -> dict[str, Any]:
    """Return a schema that allows null wherever the API server does."""
    if needed and not pods.mapping(schema).get("nullable"):
        return out
    if isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    elif isinstance(out.get("type"), list):
        out["type"] = [*out["type"], "null"]
    if isinstance(out.get("enum"), list):
        out["enum"] = [*out["enum"], None]
    combined = {key: out.pop(key) for key in (*_COMBINED, "not") if key in out}
    # The alternatives do not apply to null.
    return {**out, "if": {"not": {"type": "null"}}, "then": combined} if combined else out
