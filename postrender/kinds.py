"""Judge objects of Kubernetes, Ray and GKE by the schemas of their kinds, offline.

The schemas are the strict ones in schemas/kinds/: an unknown field is a violation, for the API server would drop it.
Those of Kubernetes are of one version; more kinds come from definitions that somebody gives.
"""

from __future__ import annotations

import os

from postrender import paths, quoted, violations
from postrender.errors import GrpoError, InputError
from postrender.failures import InstallationError
from postrender.schema import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence
    from typing import Any, Final

    from postrender.errors import Location
    from postrender.plain import Foreign, Plain
    from postrender.violations import Violation

    # The text of each entry of a file, by section and name.
    Index = dict[str, dict[str, str]]

# KubeRay 1.6 is built against this minor version, and resource.k8s.io/v1 exists from 1.34 on.
DEFAULT: Final = 35
# What GKE runs, with its longest support, and what follows.
VERSIONS: Final = range(30, 38)
_REFERENCE: Final = '"$ref":"#/$defs/'
_OF_FIELD: Final = '":{'
# What leads to a definition and is no field.
_KEYWORDS: Final = frozenset(("items", "additionalProperties", "if", "then", "else", "not"))
# Of so many objects nearly all fields are there.
_FEW: Final = 50
_SINCE: Final = '"{}":'
_NOTHING: Final = "null"
_KUBERNETES, _CUSTOM = "kubernetes.json", "custom.json"


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

    __slots__ = (
        "_asked",
        "_compiled",
        "_custom",
        "_definitions",
        "_known",
        "_kubernetes",
        "_origins",
        "_own",
        "_worded",
        "_words",
        "version",
    )

    def __init__(self, version: int = DEFAULT) -> None:
        self.version = version
        self._kubernetes = _index(_KUBERNETES)
        self._custom = _index(_CUSTOM)
        # Definitions as text: the library reads text, and nobody else reads what is in order.
        self._definitions: dict[str, str] = {}
        self._own: dict[str, dict[str, Any]] = {}
        self._origins: dict[str, Location | None] = {}
        self._known: dict[str, bool] = {}
        self._asked: set[tuple[str, ...]] = set()
        # What patterns mean, and of how many definitions that is known.
        self._words: dict[str, str] = {}
        self._worded = 0
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
        self._definitions[name] = _written(definition)

    def entry(self, kind: str) -> dict[str, Any] | None:
        """Return definition, shape of the name and what is required of a kind, None where it has no schema."""
        if kind in self._own:
            return self._own[kind]
        text = self._custom["kinds"].get(kind) or _meaning(self._kubernetes["kinds"].get(kind, ""), self.version)
        if text == _NOTHING:
            return None
        # Each entry of the files has these three, in this order.
        words = text.split('"')
        return {"definition": words[3], "name": words[7], "required": words[11::2]}

    def has(self, item: Mapping[str, Any]) -> bool:
        """Say whether there is a schema for an object's apiVersion and kind."""
        kind = kind_of(item)
        if kind not in self._known:
            self._known[kind] = self.entry(kind) is not None
        return self._known[kind]

    def definition(self, name: str) -> dict[str, Any]:
        """Return a definition such as `core.v1.PodSpec`; raise KeyError where there is none in this version."""
        return _read(self._definition(name))

    def _definition(self, name: str) -> str:
        if name not in self._definitions:
            found = self._custom["$defs"].get(name) or _meaning(self._kubernetes["$defs"][name], self.version)
            if found == _NOTHING:
                raise KeyError(name)
            self._definitions[name] = found
        return self._definitions[name]

    def all(self) -> Iterator[str]:
        """Yield every kind that has a schema."""
        for kind in (*self._kubernetes["kinds"], *self._custom["kinds"], *self._own):
            if self.entry(kind):
                yield kind

    def definitions(self) -> Iterator[str]:
        """Yield the names of the definitions that Kubernetes has in this version."""
        for name, text in self._kubernetes["$defs"].items():
            if _meaning(text, self.version) != _NOTHING:
                yield name

    def is_of_kubernetes(self, api_version: str) -> bool:
        """Say whether the group is one of Kubernetes itself, all kinds of which are known here."""
        group = api_version.rpartition("/")[0]
        groups = {kind.rpartition("/")[0].rpartition("/")[0] for kind in self._kubernetes["kinds"]}
        # The definition of any other kind needs a group with a dot.
        return group in groups or "." not in group

    def elsewhere(self, name: str) -> list[str]:
        """Return the apiVersions in which Kubernetes has a kind of this name, in this version of it."""
        kinds = (kind.rpartition("/") for kind in self._kubernetes["kinds"])
        return [version for version, _, kind in kinds if kind == name and self.entry(f"{version}/{kind}")]

    def schema(self, *kinds: str) -> dict[str, Any]:
        """Return one draft-07 schema that judges objects of these kinds, each by its own; raise KeyError for others."""
        return _read(self._whole([self._judged(kind) for kind in kinds]))

    def _judged(self, kind: str) -> str:
        entry = self.entry(kind)
        if entry is None:
            raise KeyError(kind)
        version, _, name = kind.rpartition("/")
        head = f'{{"apiVersion":{{"const":{quoted.text(version)}}},"kind":{{"const":{quoted.text(name)}}}}}'
        return f'{{"if":{{"properties":{head}}},"then":{{"allOf":[{_reference(entry["definition"])},{_head(entry)}]}}}}'

    def _whole(self, parts: list[str], fields: Container[str] | None = None) -> str:
        """Return the schema that is made of parts and of the definitions that these need, sorted by name.

        With `fields`, those behind other fields are left out: objects without these need no judgement of them.
        """
        todo = [name for part in parts for _, name in _referred(part)]
        needed, idle = set(), set()
        while todo:
            name = todo.pop()
            if name not in needed:
                needed.add(name)
                for field, other in _referred(self._definition(name)):
                    if fields is None or not field or field in fields:
                        todo.append(other)
                    else:
                        idle.add(other)
        definitions = [f"{quoted.text(name)}:{self._definitions[name]}" for name in sorted(needed)]
        definitions += [f"{quoted.text(name)}:true" for name in sorted(idle - needed)]
        return f'{{"allOf":[{",".join(parts)}],"$defs":{{{",".join(definitions)}}}}}'

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

    def _judge(self, name: tuple[str, ...], parts: list[str], objects: Sequence[Plain]) -> list[list[Violation]]:
        # One schema for all: what the kinds share, most of it, is compiled once.
        if name in self._compiled:
            validator = self._compiled[name]
        elif name in self._asked or len(objects) > _FEW:
            validator = self._compiled[name] = self._validator(parts, None)
        else:
            # To compile takes longer than to judge a few objects: what they do not have is left out the first time.
            self._asked.add(name)
            validator = self._validator(parts, _fields(objects))
        return [[] if validator.is_valid(each) else self._violations(validator, each) for each in objects]

    def _validator(self, parts: list[str], fields: Container[str] | None) -> Foreign:
        try:
            return compiled(self._whole(parts, fields))
        except ValueError as error:
            raise self._refusal(error) from error

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
        if self._worded != len(self._definitions):
            self._words = dict(violations.patterns([_read(text) for text in self._definitions.values()]))
            self._worded = len(self._definitions)
        return violations.describe(validator.iter_errors(item), self._words)


def _read(text: str) -> dict[str, Any]:
    import json

    content: dict[str, Any] = json.loads(text)
    return content


def _written(definition: dict[str, Any]) -> str:
    import json

    return json.dumps(definition, separators=(",", ":"))


def _meaning(text: str, version: int) -> str:
    """Return what an entry means in a version: `{"30":…,"33":null}` says from which version on it means what."""
    begins = [(each, at) for each in VERSIONS if (at := _since(text, each)) >= 0]
    earlier = [at for each, at in begins if each <= version]
    if not earlier:
        return _NOTHING
    end = next((at for each, at in begins if each > version), len(text) - 1)
    return text[earlier[-1] + 1 + len(_SINCE.format(version)) : end]


def _since(text: str, version: int) -> int:
    """Return where an entry says what it means from a version on; no property of a kind is called so."""
    mark = _SINCE.format(version)
    return 0 if text.startswith(mark, 1) else text.find(f",{mark}")


def _referred(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each definition that a schema refers to, and the field that it is for, empty if not at once."""
    at = text.find(_REFERENCE)
    while at >= 0:
        end = text.find('"', at + len(_REFERENCE))
        field = text[text.rfind('"', 0, at - 3) + 1 : at - 3] if text[at - 3 : at] == _OF_FIELD else ""
        yield "" if field in _KEYWORDS else field, text[at + len(_REFERENCE) : end]
        at = text.find(_REFERENCE, end)


def _fields(value: Plain, found: set[str] | None = None) -> set[str]:
    """Return the keys of all maps in a tree."""
    found = set() if found is None else found
    if isinstance(value, dict):
        found.update(value)
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            _fields(each, found)
    return found


def _reference(definition: str) -> str:
    return f'{{{_REFERENCE}{definition}"}}'


def _head(entry: Mapping[str, Any]) -> str:
    """Return what every object of a kind needs: a name of the right shape, or a generateName."""
    named = f'"properties":{{"name":{_reference(entry["name"])}}}'
    metadata = f'{{"type":"object",{named},"if":{{"required":["generateName"]}},"else":{{"required":["name"]}}}}'
    required = ",".join(map(quoted.text, ("apiVersion", "kind", "metadata", *entry["required"])))
    not_null = "".join(f',"{key}":{{"not":{{"type":"null"}}}}' for key in entry["required"])
    return f'{{"type":"object","required":[{required}],"properties":{{"metadata":{metadata}{not_null}}}}}'


def kind_of(obj: Mapping[str, Any]) -> str:
    """Return `apiVersion/kind`, for instance `ray.io/v1/RayCluster`; `?` stands for what is missing."""
    return f"{obj.get('apiVersion') or '?'}/{obj.get('kind') or '?'}"
