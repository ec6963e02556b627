"""KubeRay 1.7's definitions, built of those of 1.6 and the differences in kuberay-1.7.yaml.

usage: python -m tests.catalogues.kuberay OLD NEW >tests/catalogues/kuberay-1.7.yaml    folders with ray.io_*.yaml

The module of 1.7 is not to be had where these tests run. So its differences are facts of ours: which fields it adds,
with type and enum, which it drops, and which it no longer requires. What is inside an added field is left open.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

KINDS = ("rayclusters", "rayjobs", "rayservices", "raycronjobs")
FACTS = Path(__file__).with_name("kuberay-1.7.yaml")
HEADER = """\
# What KubeRay 1.7.0 changed in the specs of its definitions since 1.6.2, as `[]` for what is inside a list.
# Source: ray-operator/config/crd/bases at v1.6.2 and v1.7.0. Written by `python -m tests.catalogues.kuberay OLD NEW`.
"""
Schema = dict[str, Any]
Change = tuple[str, str, Any]
_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
_COMPARED_APART = {"description", "properties", "items", "required"}


def definition(folder: Path, plural: str) -> Schema:
    """Read the definition of a kind."""
    text = (folder / f"ray.io_{plural}.yaml").read_text(encoding="utf-8")
    loaded: Schema = yaml.load(text, Loader=yaml.CSafeLoader)
    return loaded


def spec(crd: Schema) -> Schema:
    """Return the schema of the spec of version v1, which can be edited in place."""
    version = next(each for each in crd["spec"]["versions"] if each["name"] == "v1")
    found: Schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def changes(old: Schema, new: Schema, path: str = "") -> Iterator[Change]:
    """Yield what differs between two schemas, only the outermost fields; a difference of another sort is an error."""
    for word in sorted((old.keys() | new.keys()) - _COMPARED_APART):
        if old.get(word) != new.get(word):
            raise ValueError(f"{path}: {word} was {old.get(word)!r} and is {new.get(word)!r}")
    if set(new.get("required", ())) - set(old.get("required", ())):
        raise ValueError(f"{path}: {new['required']} are required now")
    below = f"{path}." if path else ""
    for name in sorted(set(old.get("required", ())) - set(new.get("required", ()))):
        yield "optional", f"{below}{name}", None
    before, after = old.get("properties", {}), new.get("properties", {})
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield "dropped", f"{below}{name}", None
        elif name not in before:
            yield "added", f"{below}{name}", {key: after[name][key] for key in ("type", "enum") if key in after[name]}
        else:
            yield from changes(before[name], after[name], f"{below}{name}")
    if "items" in old and "items" in new:
        yield from changes(old["items"], new["items"], f"{path}[]")


def facts(old: Path, new: Path) -> Schema:
    """Return the differences between the definitions of two folders, by kind."""
    found: Schema = {}
    for plural in KINDS:
        kind: Schema = {"added": {}, "dropped": [], "optional": []}
        for sort, path, fact in changes(spec(definition(old, plural)), spec(definition(new, plural))):
            if sort == "added":
                kind["added"][path] = fact
            else:
                kind[sort].append(path)
        found[plural] = kind
    return found


def build(old: Path, into: Path) -> Path:
    """Write the definitions of 1.7 into a folder, from those of 1.6, and return the folder."""
    into.mkdir(parents=True, exist_ok=True)
    for plural, kind in yaml.load(FACTS.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader).items():
        crd = definition(old, plural)
        for path, fact in kind["added"].items():
            node, name = _parent(spec(crd), path)
            inside = {"object": _OPEN, "array": {"items": _OPEN}}.get(fact["type"], {})
            node["properties"][name] = {**fact, **inside}
        for path in kind["dropped"]:
            node, name = _parent(spec(crd), path)
            del node["properties"][name]
        for path in kind["optional"]:
            node, name = _parent(spec(crd), path)
            node["required"].remove(name)
        # JSON is YAML too, and is written in no time.
        (into / f"ray.io_{plural}.yaml").write_text(json.dumps(crd), encoding="utf-8")
    return into


def _parent(node: Schema, path: str) -> tuple[Schema, str]:
    *outer, name = path.split(".")
    for part in outer:
        node = node["properties"][part.removesuffix("[]")]
        node = node["items"] if part.endswith("[]") else node
    return node, name


if __name__ == "__main__":
    found = facts(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write(HEADER + yaml.safe_dump(found, sort_keys=False, default_flow_style=None, width=118))
