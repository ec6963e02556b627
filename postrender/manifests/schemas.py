"""Validate Kubernetes, Ray and GKE objects with the schemas of their kinds, offline.

The schemas are strict: an unknown field is a violation, because the API server would drop it. They are for one
version of Kubernetes; the user's CustomResourceDefinitions add more kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from postrender import facts
from postrender.errors import GrpoError, InputError, InstallationError, Location
from postrender.manifests import violations
from postrender.manifests.violations import Violation
from postrender.schema import compiled
from postrender.types import Json, Untyped

Schema = dict[str, Any]

# KubeRay 1.6 is built against this minor version, and resource.k8s.io/v1 exists from 1.34 on.
DEFAULT: Final = 35
# The versions that GKE supports, including extended support, and the next ones.
VERSIONS: Final = range(30, 38)
# How the names of open definitions begin.
_OPEN: Final = "open."
_POD_TEMPLATE: Final = "#/$defs/core.v1.PodTemplateSpec"


def minor(text: str) -> int | None:
    """Return the minor version of `1.35`, `v1.35.2` or `v1.35.2-gke.100`; None if there are no schemas for it."""
    major, _, rest = text.removeprefix("v").partition(".")
    digits = rest.partition(".")[0].partition("-")[0].partition("+")[0]
    return next((each for each in VERSIONS if major == "1" and digits == str(each)), None)


def kind_of(obj: Mapping[str, Any]) -> str:
    """Return `apiVersion/kind`, for instance `ray.io/v1/RayCluster`; `?` replaces a missing part."""
    return f"{obj.get('apiVersion') or '?'}/{obj.get('kind') or '?'}"


@cache
def _facts(name: str) -> dict[str, Any]:
    """Return the schemas of kinds as they are generated; nobody changes them, and they take long to read."""
    found: dict[str, Any] = facts.load(f"kinds/{name}.json")
    return found


class Kinds:
    """The schemas of Kubernetes 1.`version`, of Ray and GKE kinds, and of added kinds."""

    def __init__(self, version: int = DEFAULT) -> None:
        self.version = version
        kubernetes, custom = _facts("kubernetes"), _facts("custom")
        # The kinds of all versions: a kind that only another version has is still a kind of Kubernetes.
        self._of_kubernetes: list[str] = [*kubernetes["kinds"]]
        self._entries = {**of_version(kubernetes["kinds"], version), **custom["kinds"]}
        self._definitions: dict[str, Schema] = {**of_version(kubernetes["$defs"], version), **custom["$defs"]}
        # The added kinds, with the location of each definition.
        self._added: dict[str, Location | None] = {}
        self._validators: dict[tuple[str, ...], Untyped] = {}

    def add(self, kind: str, definition: Schema, at: Location | None = None) -> None:
        """Add the schema of a kind such as `example.com/v1/Trainer`, or replace the one of a known kind.

        `at` is the location of the definition. A kind of KubeRay keeps its values and its names, of which the operator
        refuses more than its definition says; the fields are those of the definition.
        """
        name = f"added.{kind.replace('/', '.')}"
        self._added[kind] = at
        known = self._entries.get(kind) if kind.startswith("ray.io/") else None
        if known:
            own = f"ray.{kind.rpartition('/')[2]}"
            self._definitions |= {f"{_OPEN}{each}": _open(self._definitions[each]) for each in self._of_ray()}
            definition = {"allOf": [definition, reference(f"{_OPEN}{own}")]}
        self._entries[kind] = {"name": "subdomain", "required": [], **(known or {}), "definition": name}
        self._definitions[name] = definition
        self._validators.clear()

    def _of_ray(self) -> list[str]:
        return [each for each in self._definitions if each.startswith("ray.")]

    def entry(self, kind: str) -> dict[str, Any] | None:
        """Return a kind's definition, name pattern and required fields, or None if it has no schema."""
        return self._entries.get(kind)

    def has(self, item: Mapping[str, Any]) -> bool:
        """Return whether there is a schema for an object's apiVersion and kind."""
        return kind_of(item) in self._entries

    def is_of_kubernetes(self, api_version: str) -> bool:
        """Return whether the group is part of Kubernetes itself, so that all its kinds are known."""
        group = api_version.rpartition("/")[0]
        groups = {kind.rpartition("/")[0].rpartition("/")[0] for kind in self._of_kubernetes}
        # The group of a CustomResourceDefinition must contain a dot.
        return group in groups or "." not in group

    def elsewhere(self, name: str) -> list[str]:
        """Return the apiVersions with a kind of this name in this version of Kubernetes."""
        kinds = (kind.rpartition("/") for kind in self._of_kubernetes)
        return [version for version, _, kind in kinds if kind == name and f"{version}/{kind}" in self._entries]

    def schema(self, *kinds: str) -> Schema:
        """Return one draft-07 schema for objects of these kinds; raise KeyError if a kind has no schema."""
        parts = [self._judged(kind) for kind in kinds]
        return {"allOf": parts, "$defs": closure(self._definitions, parts)}

    def judge(self, objects: Sequence[Mapping[str, Any]]) -> list[list[Violation]]:
        """Return the violations of each object, given as a JSON value; raise KeyError if a kind has no schema."""
        if not objects:
            return []
        kinds = tuple(dict.fromkeys(map(kind_of, objects)))
        if kinds not in self._validators:
            self._validators[kinds] = self._validator(kinds)
        validator = self._validators[kinds]
        wrong = [not validator.is_valid(each) for each in objects]
        schema = self.schema(*kinds) if any(wrong) else {}
        words = dict(violations.patterns(schema))
        return [
            violations.describe(validator.iter_errors(each), schema, words) if is_wrong else []
            for each, is_wrong in zip(objects, wrong, strict=True)
        ]

    def _judged(self, kind: str) -> Schema:
        entry = self._entries[kind]
        version, _, name = kind.rpartition("/")
        head = {"apiVersion": {"const": version}, "kind": {"const": name}}
        return {"if": {"properties": head}, "then": {"allOf": [reference(entry["definition"]), _head(entry)]}}

    def _validator(self, kinds: tuple[str, ...]) -> Untyped:
        """Return one validator for several kinds, so that shared definitions are compiled once."""
        try:
            return compiled(self.schema(*kinds))
        except ValueError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: ValueError) -> GrpoError:
        """Return an error that names the added definition that is not a valid schema."""
        for kind, at in self._added.items():
            try:
                compiled(self.schema(kind))
            except ValueError as reason:
                what = str(reason).partition("\n")[0]
                message = f"the definition of {kind} is not a schema: {what}"
                return InputError(message, at=at, fix="correct it, or leave it out")
        return InstallationError(f"the schemas of kinds are damaged: {error}", fix="install grpo-charts again")


def of_version(entries: Mapping[str, Mapping[str, Any]], version: int) -> dict[str, Any]:
    """Return one version's entries; `{"30": …, "33": null}` gives an entry's value from each version on."""
    found = {}
    for name, changes in entries.items():
        since = max((each for each in map(int, changes) if each <= version), default=None)
        if since is not None and changes[str(since)] is not None:
            found[name] = changes[str(since)]
    return found


def references(node: Json) -> Iterator[str]:
    """Yield the name of each definition that a schema refers to."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("$defs/")[2]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def closure(definitions: Mapping[str, Schema], roots: Json) -> dict[str, Schema]:
    """Return the definitions that schemas need, sorted by name; raise KeyError if a reference has no target."""
    todo = [*references(roots)]
    found: dict[str, Schema] = {}
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = definitions[name]
            todo.extend(references(found[name]))
    return {name: found[name] for name in sorted(found)}


def _open(node: Json) -> Json:
    """Return a definition of KubeRay's kinds for what has its own fields: it judges values only, of pods the number."""
    if isinstance(node, list):
        return [_open(each) for each in node]
    if not isinstance(node, dict):
        return node
    to = str(node.get("$ref", ""))
    if to == _POD_TEMPLATE:
        return {"required": ["spec"], "properties": {"spec": {"properties": {"containers": {"minItems": 1}}}}}
    if to:
        name = to.rpartition("/")[2]
        return reference(f"{_OPEN}{name}") if name.startswith("ray.") else {}
    # No field may be unknown or needed.
    return {key: _open(each) for key, each in node.items() if key != "required" and each is not False}


def reference(definition: str) -> Schema:
    """Return a schema that refers to a definition."""
    return {"$ref": f"#/$defs/{definition}"}


def _head(entry: Mapping[str, Any]) -> Schema:
    """Return the schema for what every object of a kind needs: a valid name, or a generateName."""
    metadata = {
        "type": "object",
        "properties": {"name": reference(entry["name"])},
        "if": {"required": ["generateName"]},
        "else": {"required": ["name"]},
    }
    not_null = {key: {"not": {"type": "null"}} for key in entry["required"]}
    required = ["apiVersion", "kind", "metadata", *entry["required"]]
    return {"type": "object", "required": required, "properties": {"metadata": metadata, **not_null}}
