"""Read the hand-written schema sources, schemas/values/*.yaml and schemas/tokens.yaml, and reject invalid ones.

A source is draft-07 with a few keys of our own: `x-unit`, `x-source`, `x-requiredIn`, `x-verbatim`,
`x-kubernetes` (a Kubernetes definition, without the fields of `x-without`), `x-nullable`, `x-scalar` (a text that
may be written as a number or a boolean, without quotes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrender.errors import InputError
from postrender.schema import matches
from postrender.yaml import reader

Schema = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "python -m grpo.generate"

SECTIONS = (
    "stack",
    "platform",
    "accelerator",
    "network",
    "storage",
    "huggingface",
    "tracking",
    "images",
    "ray",
    "job",
    "checks",
)
# Which chart reads which section; every chart checks the spelling of all of them.
CHARTS: Mapping[str, tuple[str, ...]] = {
    "network": ("stack", "platform", "accelerator", "network"),
    "storage": ("stack", "platform", "storage"),
    "raycluster": tuple(s for s in SECTIONS if s not in ("job", "checks")),
    "grpo-job": SECTIONS,
}
# The template itself reports these sections if they are missing, with a better message than a schema.
LEFT_TO_TEMPLATE = ("accelerator",)

KEYWORDS = frozenset(
    (
        *("type", "enum", "const", "not", "oneOf", "anyOf", "allOf", "if", "then", "else", "$ref"),
        *("pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "items", "minItems", "maxItems", "uniqueItems"),
        *("properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties"),
        *("dependencies", "description", "default", "examples"),
        *("x-unit", "x-source", "x-requiredIn", "x-verbatim", "x-kubernetes", "x-without", "x-nullable"),
        "x-scalar",
    )
)
# Go's RE2 has no look-around and no back-references; Helm would refuse the whole schema.
NOT_RE2 = re.compile(r"\(\?(=|!|<=|<!|>|P=)|\\[1-9]")
RE2_PROBLEM = "the pattern uses look-around or a back-reference, which RE2 does not support"

# Python's `re` is slow for a pattern that does not start with literal characters.
BEGINNING = re.compile(r"(\\b)?[A-Za-z0-9_-]{2,}(?![*+?{])")


class SourceError(InputError):
    """The schema sources have errors; the message has one error per line."""


@dataclass(frozen=True)
class Sources:
    """The schema sources: sections and shared definitions by name, and token patterns by name."""

    sections: Mapping[str, Schema]
    defs: Mapping[str, Schema]
    tokens: Mapping[str, str]

    @property
    def token_pattern(self) -> str:
        """Return one pattern that matches any of the tokens."""
        return "|".join(self.tokens.values())

    def resolve(self, node: Schema) -> Schema:
        """Return the node merged over its shared definition, if it has one."""
        if "$ref" not in node:
            return node
        rest = {k: v for k, v in node.items() if k != "$ref"}
        return {**self.defs[reference_name(node["$ref"])], **rest}


def reference_name(ref: str) -> str:
    """Return the NAME in `…#/$defs/NAME`."""
    return ref.rsplit("/", 1)[-1]


def load(root: Path) -> Sources:
    """Read the sources below the repository root; raise SourceError if a file is missing or unknown."""
    folder = root / "schemas" / "values"
    missing = [s for s in SECTIONS if not (folder / f"{s}.yaml").is_file()]
    extra = sorted({p.stem for p in folder.glob("*.yaml")} - {*SECTIONS, "_defs"})
    if missing or extra:
        raise SourceError(f"schemas/values: expected one file per section; missing: {missing}, unknown: {extra}")
    sections = {s: read_yaml(folder / f"{s}.yaml") for s in SECTIONS}
    job = sections["job"]["properties"]
    known = [
        version
        for framework in job["framework"]["enum"]
        for version in versions(root / "schemas/catalogues" / framework)
    ]
    job["version"]["enum"] = known
    names = job["configFor"]["propertyNames"]
    names["pattern"] = f"^({'|'.join((names['pattern'], *map(re.escape, known)))})$"
    return Sources(sections, read_yaml(folder / "_defs.yaml"), read_yaml(root / "schemas" / "tokens.yaml"))


def versions(folder: Path) -> list[str]:
    """Return the framework versions that have a catalogue in a folder, oldest first."""
    found = [path.stem for path in folder.glob("*.yaml") if path.stem.strip("v")[:1].isdigit()]
    return sorted(found, key=lambda version: [int(part) for part in version.strip("v").split(".")])


def read_yaml(path: Path) -> Schema:
    """Return the map in a YAML file."""
    content: Schema = reader.load_values(path).plain()
    return content


def all_required(node: Schema) -> set[str]:
    """Return the keys that an object requires in any chart."""
    return {*node.get("required", ()), *(k for keys in node.get("x-requiredIn", {}).values() for k in keys)}


def check(sources: Sources) -> Iterator[str]:
    """Yield one line for each mistake in the sources, with the key's path."""
    for name, pattern in sources.tokens.items():
        yield from _token(pattern, f"tokens.{name}")
    for name, node in sources.defs.items():
        yield from _keywords(node, f"_defs.{name}")
    for name, node in sources.sections.items():
        # A chart without a profile must have no accelerator section, so nothing in it can have a default.
        yield from _node(sources, node, name, required=False, entry=name in LEFT_TO_TEMPLATE)


def _token(pattern: str, path: str) -> Iterator[str]:
    if NOT_RE2.search(pattern):
        yield f"{path}: {RE2_PROBLEM}"
    if _has_alternatives(pattern):
        yield f"{path}: the pattern has alternatives: write each as a separate shape"
    elif not BEGINNING.match(pattern):
        yield f"{path}: expected two letters, digits, _ or - at the start, or \\b and two of them"


def _has_alternatives(pattern: str) -> bool:
    """Return whether a pattern has alternatives separated by bars."""
    bare, count = re.sub(r"\\.|\[\^?\]?(\\.|[^]\\])*(\]|\Z)", "", pattern), 1
    while count:
        bare, count = re.subn(r"\([^()]*\)", "", bare)
    return "|" in bare


def _keywords(node: Schema, path: str) -> Iterator[str]:
    yield from (f"{path}: unknown keyword {key!r}" for key in node if key not in KEYWORDS)
    for part in (node, node.get("propertyNames", {})):
        if isinstance(part.get("pattern"), str):
            yield from _pattern(part["pattern"], part.get("examples", ()), path)


def _pattern(pattern: str, examples: Sequence[object], path: str) -> Iterator[str]:
    """Check a pattern; messages show its first example."""
    if NOT_RE2.search(pattern):
        yield f"{path}: {RE2_PROBLEM}"
    elif not examples or not all(isinstance(each, str) and matches(pattern, each) for each in examples):
        yield f"{path}: expected examples of the pattern, which are texts that match it"


def _node(sources: Sources, raw: object, path: str, *, required: bool, entry: bool) -> Iterator[str]:
    """Check one key; `entry` is true inside a map's entry, where nothing can have a default."""
    if not isinstance(raw, dict):
        yield f"{path}: expected a schema, which is a map"
        return
    yield from _keywords(raw, path)
    ref = raw.get("$ref")
    if ref is not None and (not str(ref).startswith("#/$defs/") or reference_name(ref) not in sources.defs):
        yield f"{path}: unknown $ref {ref!r}; expected '#/$defs/NAME' with NAME from schemas/values/_defs.yaml"
        return
    node = sources.resolve(raw)
    if not node.get("description"):
        yield f"{path}: expected a description"
    if node.get("type") == "object":
        yield from _object(sources, node, path, required=required, entry=entry)
    else:
        yield from _leaf(node, path, required=required, entry=entry)


def _object(sources: Sources, node: Schema, path: str, *, required: bool, entry: bool) -> Iterator[str]:
    inner = node.get("additionalProperties")
    shapes = [k for k in ("properties", "x-verbatim", "x-kubernetes") if node.get(k)]
    shapes += ["additionalProperties"] if isinstance(inner, dict) else []
    if len(shapes) != 1:
        yield f"{path}: an object has one of properties, additionalProperties (a schema), x-verbatim, x-kubernetes"
    elif shapes == ["properties"]:
        yield from _properties(sources, node, path, entry=entry)
    else:
        yield from _default(node, path, required=required, entry=entry)
        if set(node.get("propertyNames", ("pattern", "examples"))) != {"pattern", "examples"}:
            yield f"{path}: propertyNames can have only a pattern and examples"
        if inner is not None:
            yield from _node(sources, inner, f"{path}.<key>", required=True, entry=True)


def _properties(sources: Sources, node: Schema, path: str, *, entry: bool) -> Iterator[str]:
    if "default" in node:
        yield f"{path}: write the default of an object at its leaves"
    for chart in node.get("x-requiredIn", {}):
        if chart not in CHARTS:
            yield f"{path}: x-requiredIn names the unknown chart {chart!r}; expected one of {', '.join(CHARTS)}"
    needed = all_required(node)
    for key in sorted(needed - set(node["properties"])):
        yield f"{path}: requires {key!r}, which is not among its properties"
    for key, inner in node["properties"].items():
        yield from _node(sources, inner, f"{path}.{key}", required=key in needed, entry=entry)


def _leaf(node: Schema, path: str, *, required: bool, entry: bool) -> Iterator[str]:
    kind = node.get("type")
    if not isinstance(kind, str):
        yield f"{path}: expected one type per key"
    if kind in ("integer", "number") and not node.get("x-unit"):
        yield f"{path}: expected x-unit, because it is a number"
    if kind == "array" and not isinstance(node.get("items"), dict):
        yield f"{path}: expected items, because it is an array"
    yield from _default(node, path, required=required, entry=entry)


def _default(node: Schema, path: str, *, required: bool, entry: bool) -> Iterator[str]:
    if not node.get("x-source"):
        yield f"{path}: expected x-source, an upstream page or file, or 'ours'"
    if "default" not in node:
        if not required and not entry:
            yield f"{path}: expected a default, or the key in its parent's required"
    elif node["default"] is None:
        yield f"{path}: Helm ignores a null default; give a value, or remove the default"
    elif entry:
        yield (
            f"{path}: a default inside an entry of a map, or a profile, is never applied;"
            " explain in the description what a missing key means"
        )
    elif required:
        yield f"{path}: is required and has a default; remove one of them"
