"""Read earlier output of grpo render: an --output-dir folder, or a file with the manifests of any layers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo.manifests import export, loader
from grpo.manifests.loader import ManifestDocument
from postrender import paths, textfile
from postrender.errors import InputError
from postrender.yaml import reader

# Objects that none of our charts renders.
OTHER = "other"
_CHART = "app.kubernetes.io/name"


@dataclass(frozen=True)
class RenderedFiles:
    """The objects by layer, and the only namespace that they name, if there is exactly one.

    `stacks` has the objects of each folder that contains layers, by folder and then by layer, and `layers` has the
    objects of all these folders. `has_tests` says whether the objects of `helm test` are included: --output-dir leaves
    them out.
    """

    path: str
    layers: Mapping[str, list[dict[str, Any]]]
    stacks: Mapping[str, Mapping[str, list[dict[str, Any]]]]
    namespace: str | None
    has_tests: bool

    @property
    def folders(self) -> list[str]:
        """Return the folders that contain layers of our charts."""
        return sorted(folder for folder, layers in self.stacks.items() if any(each in paths.LAYERS for each in layers))


def is_rendered(path: str) -> bool:
    """Return whether a path contains manifests: a folder, or a file that begins with a Kubernetes object."""
    if os.path.isdir(path):
        return True
    try:
        head = reader.load_head(textfile.read_bytes(path).decode("utf-8", "replace"), path)
    except InputError:
        # Reading the file as values reports what is wrong.
        return False
    return isinstance(head, dict) and {"apiVersion", "kind"} <= {*head}


def read(path: str) -> RenderedFiles:
    """Read manifests; raise UnreadableError if the path cannot be read, and InputError if its content is invalid."""
    streams = loader.streams([path])[path] if os.path.isdir(path) else [{path: textfile.read_bytes(path)}]
    stacks: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for stream in streams:
        documents = loader.read(stream)
        indexes = [each for each in documents if loader.is_index(each)]
        for document in documents:
            layers_of = stacks.setdefault(_stack(document, path), {})
            if document in indexes:
                # An empty list of files is a layer without objects.
                layers_of.setdefault(_folder(document), []).extend(_changes(document, documents))
            elif all(_lists(index, document) for index in indexes):
                layers_of.setdefault(_layer(document), []).append(document.plain)
    layers: dict[str, list[dict[str, Any]]] = {}
    for each in stacks.values():
        for layer, items in each.items():
            layers.setdefault(layer, []).extend(items)
    objects = [item for each in layers.values() for item in each]
    namespaces = {item.get("metadata", {}).get("namespace") for item in objects} - {None, "kube-system"}
    only = str(min(namespaces)) if len(namespaces) == 1 else None
    return RenderedFiles(path, layers, stacks, only, any(map(export.is_hook, objects)))


def _lists(index: ManifestDocument, document: ManifestDocument) -> bool:
    """Return whether a kustomization lists the file of an object: tools that read the folder install no other one."""
    return os.path.basename(document.file) in map(os.path.normpath, loader.listed(index.plain))


def _changes(index: ManifestDocument, documents: Sequence[ManifestDocument]) -> list[dict[str, Any]]:
    """Return what a kustomization does to the files that it lists, as an object to compare; none without patches.

    It may say it in files of its own.
    """
    more: dict[str, Any] = {key: value for key, value in index.plain.items() if key not in export.KEYS}
    files: dict[str, list[Any]] = {}
    for each in documents:
        if (name := os.path.basename(each.file)) in loader.named(more):
            files.setdefault(name, []).append(each.plain)
    if files:
        more["files"] = files
    name = os.path.basename(index.file)
    return [{"kind": "Kustomization", **more, "metadata": {"name": name}}] if more else []


def _stack(document: ManifestDocument, path: str) -> str:
    """Return the folder of a document's layers, relative to the path that is read; empty if it is that path itself."""
    folder = os.path.dirname(document.file)
    if os.path.basename(folder) in paths.LAYERS and os.path.realpath(folder) != os.path.realpath(path):
        folder = os.path.dirname(folder)
    below = os.path.relpath(folder, path) if os.path.isdir(path) else os.curdir
    return "" if below == os.curdir else below


def _layer(document: ManifestDocument) -> str:
    labels = document.plain.get("metadata", {}).get("labels") or {}
    return str(labels[_CHART]) if labels.get(_CHART) in paths.LAYERS else _folder(document)


def _folder(document: ManifestDocument) -> str:
    name = os.path.basename(os.path.dirname(os.path.abspath(document.file)))
    return name if name in paths.LAYERS else OTHER
