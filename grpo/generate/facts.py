"""Generate the JSON facts in schemas/generated/ from the YAML sources in schemas/."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo.generate import reference
from grpo.generate.schemas import PASSED_THROUGH, has_default
from grpo.generate.sources import Schema, SourceError, Sources, read_yaml
from grpo.values.catalogue import sentence
from postrender.spelling import plain

FOLDER = "schemas/generated"
# The sections that postrender/wiring/plan.py reads.
WIRED = ("stack", "platform", "accelerator", "network", "huggingface", "tracking", "images")
# In other sections only keys with a default are required: a user who wires another chart names no stack and no image.
_WHOLE = "accelerator"
# The chart whose defaults apply to pods.
_CHART = "raycluster"
# The start of a pattern: a word boundary and literal characters.
_WORD = re.compile(r"^\\b([A-Za-z0-9_-]{2,})(?![*+?{])")


def render(root: Path, sources: Sources) -> dict[str, str]:
    """Return the text of each file by its path below the repository root."""
    files = {"secrets.json": secrets(sources.tokens), "wiring.json": wiring(sources)}
    files["guesses.json"] = guesses(read_yaml(root / "schemas" / "guesses.yaml"))
    files["models.json"] = models(read_yaml(root / "schemas" / "models.yaml"))
    for path in sorted((root / "schemas" / "catalogues").glob("*/*.yaml")):
        files[f"catalogues/{path.parent.name}/{path.stem}.json"] = read_yaml(path)
    return {f"{FOLDER}/{name}": lines_json(content) for name, content in files.items()}


def provisional(root: Path) -> dict[str, Any]:
    """Return the sentence about each provisional version by framework, which the chart's NOTES print."""
    files = sorted((root / "schemas" / "catalogues").glob("*/provisional.yaml"))
    named = {file.parent.name: read_yaml(file) for file in files}
    return {
        framework: {version: sentence(framework, version, entry) for version, entry in entries.items()}
        for framework, entries in named.items()
    }


def models(written: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return each model's facts by its name, merged over the facts of the model that it is `like`."""
    found: dict[str, Any] = {}
    for name, facts in written.items():
        own = dict(facts)
        same = own.pop("like", name)
        if same != name and same not in found:
            raise SourceError(f"schemas/models.yaml: {name} is like {same}, expected a model above it in the file")
        found[name] = {**found.get(same, {}), **own}
    return found


def guesses(written: Mapping[str, str]) -> dict[str, str]:
    """Return what to write instead of a commonly guessed key, by the guess in lower case and without - and _."""
    return {plain(guess): right for guess, right in written.items()}


def secrets(shapes: Mapping[str, str]) -> dict[str, str]:
    r"""Return the secret patterns for Python's `re`, which is fast if a pattern starts with literal characters.

    A leading `\b` prevents that, so it is moved behind those characters: `\bsk-` becomes `sk-(?<=\bsk-)`.
    """
    return {name: _WORD.sub(r"\1(?<=\\b\1)", pattern) for name, pattern in shapes.items()}


# Shapes of names of objects, which appear in what is wired.
_NAMES = ("/secretName", "/objectName")


def wiring(sources: Sources) -> dict[str, Any]:
    """Return the schema of the sections that the wiring reads, with the defaults; every object in it is strict.

    It has only the types, names, enums and required keys of the charts' schemas and the patterns for object names,
    because the post-renderer validates without a JSON Schema library. The charts' schemas check the rest.
    """
    sections = {name: _shape(sources, sources.sections[name], whole=name == _WHOLE) for name in WIRED}
    defaults = {name: reference.defaults(sources, _CHART).get(name, {}) for name in WIRED if name != _WHOLE}
    names = [*sources.sections, *PASSED_THROUGH]
    schema = {"type": "object", "propertyNames": {"enum": names}, "default": defaults}
    return schema | {"required": [*WIRED], "properties": sections}


def _shape(sources: Sources, raw: Schema, *, whole: bool) -> Schema:
    node = sources.resolve(raw)
    kept: Schema = {key: node[key] for key in ("type", "enum") if key in node}
    if str(raw.get("$ref", "")).endswith(_NAMES):
        kept["pattern"] = node["pattern"]
    if node.get("type") != "object":
        return kept
    properties = node.get("properties", {})
    # A key with a default is set unless a values file deletes it with null.
    required = [
        key
        for key, inner in properties.items()
        if (whole and key in node.get("required", ())) or has_default(sources, inner)
    ]
    more = node.get("additionalProperties")
    shape = {
        **kept,
        "required": required,
        "properties": {key: _shape(sources, inner, whole=whole) for key, inner in properties.items()},
        "additionalProperties": _shape(sources, more, whole=whole) if isinstance(more, dict) else False,
    }
    return {key: value for key, value in shape.items() if value or key == "additionalProperties"}


def compact(value: object) -> str:
    """Return JSON on one line, keeping the value's key order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def lines_json(value: Mapping[str, Any]) -> str:
    """Return JSON with one entry per line down to the second level, so that it is compact and diffs are readable."""
    parts = []
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            entries = ",\n".join(f"  {compact(k)}:{compact(v)}" for k, v in inner.items())
            parts.append(f" {compact(key)}:{{\n{entries}\n }}")
        else:
            parts.append(f" {compact(key)}:{compact(inner)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
