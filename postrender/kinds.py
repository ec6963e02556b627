"""Judge objects of Kubernetes, Ray and GKE by the schemas of their kinds, offline.

The schemas are the strict ones in schemas/kinds/: an unknown field is a violation, for the API server would drop it.
Those of Kubernetes are of one version; more kinds come from definitions that somebody gives.
"""

from __future__ import annotations

import os

from postrender import paths, violations
from postrender.errors import GrpoError, InputError, InstallationError
from postrender.schema import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final

    from postrender.location import Location
    from postrender.plain import Foreign, Plain
    from postrender.violations import Violation

    # The text of each entry of a file, by section and name.
    Index = dict[str, dict[str, str]]

# KubeRay 1.6 is built against this minor version, and resource.k8s.io/v1 exists from 1.34 on.
DEFAULT: Final = 35
# What GKE runs, with its longest support, and what follows.
VERSIONS: Final = range(30, 38)
_KUBERNETES, _CUSTOM = "kubernetes.json", "custom.json"
# These groups have gone before the first version, with all that was in them.
_OLD_GROUPS: Final = ("extensions",)


def minor(text: str) -> int | None:
    """Return the minor version of `1.35`, `v1.35.2` or `v1.35.2-gke.100`; None where there are no schemas of it."""
    major, _, rest = text.removeprefix("v").partition(".")
    digits = rest.partition(".")[0].partition("-")[0].partition("+")[0]
    return next((each for each in VERSIONS if major == "1" and digits == str(each)), None)


def _index(name: str) -> Index:
    """Find the entries of a file without reading them: two levels, each entry on a line of its own."""
    with open(os.path.join(paths.data_root(), "schemas", "kinds", name), encoding="utf-8") as file:
        lines = file.read().split("\n")
    index: Index = {}
    section: dict[str, str] = {}
    for line in lines:
        key, _, value = line.lstrip(" ").partition('":')
        if line.startswith('  "'):
            section[key[1:]] = value.removesuffix(",")
        elif line.startswith(' "'):
            section = index.setdefault(key[1:], {})
    return index


class Kinds:
    """Hold the schemas of one version of Kubernetes 1, of Ray's and GKE's kinds, and of those that are added."""

    __slots__ = ("_compiled", "_custom", "_definitions", "_known", "_kubernetes", "_origins", "_own", "version")

    def __init__(self, version: int = DEFAULT) -> None:
        self.version = version
        self._kubernetes = _index(_KUBERNETES)
        self._custom = _index(_CUSTOM)
        self._definitions: dict[str, dict[str, Any]] = {}
        self._own: dict[str, dict[str, Any]] = {}
        self._origins: dict[str, Location | None] = {}
        self._known: dict[str, bool] = {}
        self._compiled: dict[tuple[str, ...], Foreign] = {}

    def add(self, kind: str, definition: dict[str, Any], at: Location | None = None) -> None:
        """Take the schema of one more kind, or another one for a kind that is known: `ray.io/v1/RayCluster`.

        `at` is where its definition stands.
        """
        name = f"added.{kind.replace('/', '.')}"
        self._origins[kind] = at
        self._compiled.clear()
        self._known.clear()
        self._own[kind] = {"definition": name, "name": "subdomain", "required": []}
        self._definitions[name] = definition

    def entry(self, kind: str) -> dict[str, Any] | None:
        """Return definition, shape of the name and what is required of a kind, None where it has no schema."""
        if kind in self._own:
            return self._own[kind]
        if kind in self._custom["kinds"]:
            return _read(self._custom["kinds"][kind])
        text = self._kubernetes["kinds"].get(kind)
        return self._at(text) if text else None

    def has(self, item: Mapping[str, Any]) -> bool:
        """Say whether there is a schema for an object's apiVersion and kind."""
        kind = kind_of(item)
        if kind not in self._known:
            self._known[kind] = self.entry(kind) is not None
        return self._known[kind]

    def definition(self, name: str) -> dict[str, Any]:
        """Return a definition such as `core.v1.PodSpec`; raise KeyError where there is none in this version."""
        if name not in self._definitions:
            custom = self._custom["$defs"].get(name)
            found = _read(custom) if custom else self._at(self._kubernetes["$defs"][name])
            if found is None:
                raise KeyError(name)
            self._definitions[name] = found
        return self._definitions[name]

    def _at(self, text: str) -> dict[str, Any] | None:
        """Return what an entry means in this version: it says from which one on it means what."""
        found: dict[str, Any] | None = None
        for since, content in _read(text).items():
            if int(since) <= self.version:
                found = content
        return found

    def all(self) -> Iterator[str]:
        """Yield every kind that has a schema."""
        for kind in (*self._kubernetes["kinds"], *self._custom["kinds"], *self._own):
            if self.entry(kind):
                yield kind

    def definitions(self) -> Iterator[str]:
        """Yield the names of the definitions that Kubernetes has in this version."""
        for name, text in self._kubernetes["$defs"].items():
            if self._at(text) is not None:
                yield name

    def is_of_kubernetes(self, api_version: str) -> bool:
        """Say whether the group is one of Kubernetes itself, all kinds of which are known here."""
        group = api_version.rpartition("/")[0]
        groups = {kind.rpartition("/")[0].rpartition("/")[0] for kind in self._kubernetes["kinds"]}
        return group in groups or group in _OLD_GROUPS

    def elsewhere(self, name: str) -> list[str]:
        """Return the apiVersions in which Kubernetes has a kind of this name, in this version of it."""
        kinds = (kind.rpartition("/") for kind in self._kubernetes["kinds"])
        return [version for version, _, kind in kinds if kind == name and self.entry(f"{version}/{kind}")]

    def schema(self, *kinds: str) -> dict[str, Any]:
        """Return one draft-07 schema that judges objects of these kinds, each by its own; raise KeyError for others."""
        return self._whole([self._judged(kind) for kind in kinds])

    def _judged(self, kind: str) -> dict[str, Any]:
        entry = self.entry(kind)
        if entry is None:
            raise KeyError(kind)
        version, _, name = kind.rpartition("/")
        head = {"apiVersion": {"const": version}, "kind": {"const": name}}
        return {"if": {"properties": head}, "then": {"allOf": [_reference(entry["definition"]), _head(entry)]}}

    def _whole(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"allOf": parts, "$defs": closure(self.definition, references(parts))}

    def judge(self, objects: Sequence[Mapping[str, Any]]) -> list[list[Violation]]:
        """Return what is wrong with each object of plain JSON types; raise KeyError for a kind without a schema."""
        kinds = dict.fromkeys(map(kind_of, objects))
        if not kinds:
            return []
        return self._judge(tuple(kinds), [self._judged(kind) for kind in kinds], objects)

    def judge_part(self, definition: str, part: Plain) -> list[Violation]:
        """Return what is wrong with a part of an object, by a definition such as `core.v1.PodTemplateSpec`.

        Raises KeyError for a definition that is not in the schemas.
        """
        return self._judge((definition,), [_reference(definition)], [part])[0]

    def _judge(
        self, name: tuple[str, ...], parts: list[dict[str, Any]], objects: Sequence[Plain]
    ) -> list[list[Violation]]:
        if name not in self._compiled:
            # One schema for all: what the kinds share, most of it, is compiled once.
            try:
                self._compiled[name] = compiled(self._whole(parts))
            except ValueError as error:
                raise self._refusal(error) from error
        validator = self._compiled[name]
        return [[] if validator.is_valid(each) else self._violations(validator, each) for each in objects]

    def _refusal(self, error: ValueError) -> GrpoError:
        """Say which of the definitions that were added is no schema."""
        for kind in self._own:
            try:
                compiled(self._whole([self._judged(kind)]))
            except ValueError as reason:
                what = str(reason).partition("\n")[0]
                message, fix = f"the definition of {kind} is no schema: {what}", "correct it, or leave it out"
                return InputError(message, at=self._origins[kind], fix=fix)
        return InstallationError(f"the schemas of kinds are damaged: {error}", fix="install grpo-charts again")

    def _violations(self, validator: Foreign, item: Plain) -> list[Violation]:
        words = dict(violations.patterns([*self._definitions.values()]))
        return violations.describe(validator.iter_errors(item), words)


def _read(text: str) -> dict[str, Any]:
    import json

    content: dict[str, Any] = json.loads(text)
    return content


def _reference(definition: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{definition}"}


def _head(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every object of a kind needs: a name of the right shape, or a generateName."""
    metadata = {
        "type": "object",
        "properties": {"name": _reference(entry["name"])},
        "if": {"required": ["generateName"]},
        "else": {"required": ["name"]},
    }
    required = ["apiVersion", "kind", "metadata", *entry["required"]]
    not_null = {key: {"not": {"type": "null"}} for key in entry["required"]}
    return {"type": "object", "required": required, "properties": {"metadata": metadata, **not_null}}


def kind_of(obj: Mapping[str, Any]) -> str:
    """Return `apiVersion/kind`, for instance `ray.io/v1/RayCluster`; `?` stands for what is missing."""
    return f"{obj.get('apiVersion') or '?'}/{obj.get('kind') or '?'}"


def references(node: object) -> Iterator[str]:
    """Yield the name of each definition that a schema refers to."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("$defs/")[2]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def closure(definition: Callable[[str], Any], roots: Iterable[str]) -> dict[str, Any]:
    """Return the definitions that the roots need, themselves included, sorted by name.

    Raises KeyError for a reference to a definition that does not exist.
    """
    todo: list[str] = list(roots)
    found: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = definition(name)
            todo.extend(references(found[name]))
    return {name: found[name] for name in sorted(found)}
