"""Generate the schemas for Kubernetes, Ray and GKE kinds: schemas/generated/kinds/.

The Kubernetes schemas come from the strict bundles in the package `kubernetes-validate`, which only this module
uses. They are pruned and refined by schemas/kinds/kubernetes.yaml, and each definition is stored once per version
that changes it. The Ray and GKE schemas have short sources in the same folder. This module makes every object
strict, allows null for optional fields (the API server drops such a null; the rules report a missing required
field), and adds the fields that all kinds share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from grpo.generate.sources import COMMAND, Schema, SourceError, read_yaml, reference_name
from postrender.manifests.schemas import VERSIONS, closure, reference, references

FOLDER = "schemas/kinds"
SOURCES = ("ray.yaml", "gke.yaml", "monitoring.yaml")
PREFIXES = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apimachinery.pkg.")

# Requests to the API server that are not stored, so no manifest contains them.
TRANSIENT = ("authentication.k8s.io/", "authorization.k8s.io/", "internal.apiserver.k8s.io/")
# From this version on, the name of a Service follows the rules of other objects.
RELAXED_SERVICES = 36
# Large fields that only the API server writes.
OPAQUE = {"status": "object", "managedFields": "array"}
KEPT = ("type", "enum", "required", "additionalProperties", "items", "properties")


def short(name: str) -> str:
    """Shorten `io.k8s.api.core.v1.Pod` to `core.v1.Pod`."""
    prefix = next((p for p in PREFIXES if name.startswith(p)), "")
    return name.removeprefix(prefix)


def prune(node: Schema) -> Schema:
    """Return the schema without descriptions, formats and extensions, and with shortened references."""
    if "$ref" in node:
        return {"$ref": "#/$defs/" + short(reference_name(node["$ref"]))}
    out: Schema = {key: node[key] for key in KEPT if key in node}
    if "properties" in out:
        out["properties"] = {k: _property(k, v) for k, v in sorted(out["properties"].items())}
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), dict):
            out[key] = prune(out[key])
    return out


def _property(name: str, node: Schema) -> Schema:
    # A status that is a string belongs to a condition; keep its schema.
    is_opaque = name in OPAQUE and (name != "status" or "$ref" in node)
    return {"type": [OPAQUE[name], "null"]} if is_opaque else prune(node)


def refine(defs: dict[str, Schema], refinements: Mapping[str, Schema]) -> None:
    """Apply refinements in place; raise KeyError if the bundle no longer has a field."""
    for where, extra in refinements.items():
        name, *steps = where.split(" ")
        node = defs[name]
        for step in steps:
            inside = {"[]": "items", "{}": "additionalProperties"}.get(step)
            node = node[inside] if inside else node["properties"][step]
        _narrow(node, extra)


def _narrow(node: Schema, extra: Schema) -> None:
    if "$ref" in extra or "$ref" in node:
        node.clear()
    nullable = "null" in node.get("type", ())
    node.update(extra)
    if node.get("format") == "cron":
        del node["format"]
        node["pattern"] = cron_pattern()
    if nullable and "enum" in node:
        node["enum"] = [*node["enum"], None]


def definitions(bundle: Mapping[str, Schema], source: Schema) -> dict[str, Schema]:
    """Return one version's definitions, pruned and refined according to the source."""
    defs = {short(name): prune(node) for name, node in bundle.items()}
    defs.update({name: dict(node) for name, node in source["shapes"].items()})
    refine(defs, source["refinements"])
    return defs


def entries(defs: Mapping[str, Schema], minor: int, source: Schema) -> dict[str, Schema]:
    """Return one version's kinds by `apiVersion/kind`: definition, name pattern and required fields."""
    found = {}
    for name, node in sorted(defs.items()):
        properties = node.get("properties", {})
        version, kind = (properties.get(key, {}).get("enum") for key in ("apiVersion", "kind"))
        if not version or not kind or "metadata" not in properties:
            continue
        if not version[0].startswith(TRANSIENT) and not kind[0].endswith("List"):
            each = f"{version[0]}/{kind[0]}"
            required = ["spec"] if kind[0] in source["needsSpec"] else []
            found[each] = {"definition": name, "name": source["names"].get(each, "subdomain"), "required": required}
    if minor >= RELAXED_SERVICES:
        found["v1/Service"]["name"] = "label"
    return found


def read_bundle(version: int) -> dict[str, Schema]:
    """Read the strict definitions for Kubernetes 1.`version` from the installed kubernetes-validate."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v1.{version}.0-local-strict"
    content = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))
    defs: dict[str, Schema] = content.get("$defs") or content["definitions"]
    return defs


def merged(versions: Mapping[int, Mapping[str, Schema]]) -> Schema:
    """Return each name's definitions by their first version, null for a removal: `{"30": …, "36": null}`."""
    names = sorted({name for content in versions.values() for name in content})
    return {name: _changes(name, versions) for name in names}


def _changes(name: str, versions: Mapping[int, Mapping[str, Schema]]) -> Schema:
    found: Schema = {}
    last = None
    for version, content in sorted(versions.items()):
        if content.get(name) != last:
            last = content.get(name)
            found[str(version)] = last
    return found


def kubernetes(root: Path) -> Schema:
    """Return the kinds and definitions of all Kubernetes versions."""
    source = read_yaml(root / FOLDER / "kubernetes.yaml")
    kinds, defs = {}, {}
    for version in VERSIONS:
        all_of_it = definitions(read_bundle(version), source)
        kinds[version] = entries(all_of_it, version, source)
        roots = [*(entry["definition"] for entry in kinds[version].values()), *source["shapes"]]
        defs[version] = closure(all_of_it, [*map(reference, roots)])
    covered = f"Kubernetes 1.{VERSIONS[0]} to 1.{VERSIONS[-1]}"
    comment = f"Generated by `{COMMAND}` from {covered}; do not edit."
    return {"$comment": comment, "kinds": merged(kinds), "$defs": merged(defs)}


def custom(root: Path, kubernetes: Mapping[str, Schema]) -> Schema:
    """Return the kinds and definitions that are not part of Kubernetes; raise SourceError if a reference has no target.

    `kubernetes` has the definitions that they may refer to.
    """
    kinds: Schema = {}
    defs: dict[str, Schema] = {}
    for name in SOURCES:
        content = read_yaml(root / FOLDER / name)
        for kind, entry in content["kinds"].items():
            definition = f"{entry['spec'].split('.')[0]}.{kind.rsplit('/', 1)[-1]}"
            kinds[kind] = {"definition": definition, "name": entry["name"], "required": entry["required"]}
            defs[definition] = _kind(kind, entry["spec"])
        names = {entry["name"] for entry in content["kinds"].values()}
        defs.update({k: closed(v) if k in names else optional(closed(v)) for k, v in content["$defs"].items()})
    unknown = sorted(set(references(list(defs.values()))) - set(defs) - set(kubernetes))
    if unknown:
        raise SourceError(f"{FOLDER}: references to unknown definitions: {', '.join(unknown)}")
    comment = f"Generated by `{COMMAND}` from {', '.join(SOURCES)}; do not edit."
    return {"$comment": comment, "kinds": kinds, "$defs": defs}


def _kind(kind: str, spec: str) -> Schema:
    version, _, name = kind.rpartition("/")
    properties: Schema = {
        "apiVersion": {"type": "string", "enum": [version]},
        "kind": {"type": "string", "enum": [name]},
        "metadata": {"$ref": "#/$defs/meta.v1.ObjectMeta"},
        "spec": {"$ref": f"#/$defs/{spec}"},
        "status": {"type": ["object", "null"]},
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def closed(node: Schema) -> Schema:
    """Return the schema with every object closed, every optional field nullable, and no other one."""
    out: Schema = dict(node)
    if "properties" in node:
        needed = node.get("required", ())
        fields = {k: closed(v) for k, v in node["properties"].items()}
        out["properties"] = {k: v if k in needed else optional(v) for k, v in fields.items()}
        out.setdefault("additionalProperties", False)
        # A definition allows null itself.
        if named := [k for k in needed if "$ref" in node["properties"][k]]:
            out["allOf"] = [{"properties": {k: {"not": {"type": "null"}} for k in named}}]
    if isinstance(out.get("items"), dict):
        out["items"] = closed(out["items"])
    if isinstance(out.get("additionalProperties"), dict):
        out["additionalProperties"] = optional(closed(out["additionalProperties"]))
    return out


def optional(node: Schema) -> Schema:
    """Return the schema with null allowed; a reference is left unchanged, because its definition allows null itself."""
    if not isinstance(node.get("type"), str):
        return node
    out: dict[str, Any] = {**node, "type": [node["type"], "null"]}
    if "enum" in node:
        out["enum"] = [*node["enum"], None]
    return out


def cron_pattern() -> str:
    """Return the pattern for a CronJob's schedule; it does not check that a range ends after its start."""
    months = _words("jan feb mar apr may jun jul aug sep oct nov dec")
    days = _words("sun mon tue wed thu fri sat")
    fields = map(
        _cron_field,
        (
            "[+]?0*[0-5]?[0-9]",
            "[+]?0*(1?[0-9]|2[0-3])",
            "[+]?0*([1-9]|[12][0-9]|3[01])",
            f"([+]?0*([1-9]|1[0-2])|{months})",
            f"([+]?0*[0-6]|{days})",
        ),
    )
    # `\s` is slow to compile.
    blank = r"[\t-\r \x85\xa0]"
    duration = r"[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(h|m|s|ms|us|\u00b5s|\u03bcs|ns))+)"
    named = "@(yearly|annually|monthly|weekly|daily|midnight|hourly)"
    return f"^({named}|@every {duration}|{blank}*{f'{blank}+'.join(fields)}{blank}*)$"


def _cron_field(one: str) -> str:
    part = rf"([*?](-[^/,\t-\r \x85\xa0]*)?|{one}(-{one})?)(/[+]?0*[1-9][0-9]*)?"
    return f"(,*{part}(,+{part})*,*|,+)"


def _words(words: str) -> str:
    """Return a pattern that matches some words in any letter case, and compiles faster than `(?i:)`."""
    return "|".join("".join(f"[{each}{each.upper()}]" for each in word) for word in words.split())
