"""Faults: one change of a good cluster, or of the values, that `grpo doctor` must find. The table is faults.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.kube import Kube, Manifest, in_namespace

HERE = "{namespace}"


@dataclass(frozen=True)
class Plant:
    """A row of the table; its comment says what each field means."""

    name: str
    check: str
    text: str
    value: str = ""
    patch: list[dict[str, Any]] = field(default_factory=list)
    remove: list[dict[str, str]] = field(default_factory=list)
    make: list[Manifest] = field(default_factory=list)
    delete: list[dict[str, str]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    follows: list[str] = field(default_factory=list)


def read(file: Path) -> list[Plant]:
    """Read the table; raise TypeError for a field that no plant has."""
    return [Plant(**row) for row in yaml.safe_load(file.read_text())["plants"]]


@contextmanager
def planted(kube: Kube, plant: Plant, namespace: str) -> Iterator[None]:
    """Change the cluster as a plant says, and take it back."""
    rows = json.loads(json.dumps([plant.make, plant.patch, plant.remove, plant.delete]).replace(HERE, namespace))
    made, patches, removed, deleted = rows
    with ExitStack() as changes:
        for each in made:
            changes.enter_context(_made(kube, each))
        for each in patches:
            names = each["names"] if "names" in each else [each["name"]]
            for name in names:
                changes.enter_context(_patched(kube, name, **{**each, "names": None, "name": None}))
        for each in removed:
            changes.enter_context(_removed(kube, **each))
        for each in deleted:
            is_ours = any(item["metadata"]["name"] == each["name"] for item in made)
            changes.enter_context(_deleted(kube, again=not is_ours, **each))
        yield


@contextmanager
def _deleted(kube: Kube, kind: str, name: str, namespace: str = "", again: bool = True) -> Iterator[None]:
    before = kube.get(kind, name, namespace)
    kube.run("delete", kind, name, *in_namespace(namespace), "--wait=false")
    try:
        yield
    finally:
        if again:
            kept = ("name", "namespace", "labels", "annotations")
            about = {key: value for key, value in before["metadata"].items() if key in kept}
            kube.create([{key: value for key, value in before.items() if key != "status"} | {"metadata": about}])


@contextmanager
def _made(kube: Kube, item: Manifest) -> Iterator[None]:
    kube.create([item])
    about, kind = item["metadata"], item["kind"].lower()
    where = about.get("namespace", "")
    try:
        yield
    finally:
        if about.get("finalizers"):
            change(kube, kind, about["name"], {"metadata": {"finalizers": None}}, where)
        kube.delete(kind, about["name"], where)


@contextmanager
def _patched(
    kube: Kube,
    target: str,
    kind: str,
    to: Manifest,
    namespace: str = "",
    status: bool = False,
    **_: object,
) -> Iterator[None]:
    before = kube.get(kind, target, namespace)
    change(kube, kind, target, to, namespace, status)
    try:
        yield
    finally:
        change(kube, kind, target, inverse(to, before), namespace, status)


@contextmanager
def _removed(kube: Kube, kind: str, name: str, path: str) -> Iterator[None]:
    old: Any = kube.get(kind, name)
    for key in path.strip("/").split("/"):
        old = old[int(key)] if isinstance(old, list) else old[key]
    kube.run("patch", kind, name, "--type=json", "--patch", json.dumps([{"op": "remove", "path": path}]))
    try:
        yield
    finally:
        kube.run("patch", kind, name, "--type=json", "--patch", json.dumps([{"op": "add", "path": path, "value": old}]))


def change(kube: Kube, kind: str, name: str, to: Manifest, namespace: str = "", status: bool = False) -> None:
    """Change an object by a JSON merge patch, or its status, as its controller would."""
    part = ["--subresource=status"] if status else []
    kube.run("patch", kind, name, *in_namespace(namespace), *part, "--type=merge", "--patch", json.dumps(to))


def inverse(patch: Manifest, before: Manifest) -> Manifest:
    """Return the merge patch that takes another one back."""
    undone: Manifest = {}
    for key, value in patch.items():
        old = before.get(key)
        undone[key] = inverse(value, old) if isinstance(value, dict) and isinstance(old, dict) else old
    return undone
