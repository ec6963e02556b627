"""Read what grpo render wrote earlier: a folder of --output-dir, or a file with the manifests of any layers."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
    """The objects by layer, and the only namespace that they name, if there is one.

    `has_tests` says whether the objects of `helm test` are among them: --output-dir leaves them out.
    """

    path: str
    layers: Mapping[str, list[dict[str, Any]]]
    namespace: str | None
    has_tests: bool


def is_rendered(path: str) -> bool:
    """Return whether a path holds manifests: a folder, or a file that begins with a Kubernetes object."""
    if os.path.isdir(path):
        return True
    try:
        head = reader.load_head(textfile.read_bytes(path).decode("utf-8", "replace"), path)
    except InputError:
        # Reading the file as values reports what is wrong.
        return False
    return isinstance(head, dict) and {"apiVersion", "kind"} <= {*head}


def read(path: str) -> RenderedFiles:
    """Read manifests; raise UnreadableError and InputError."""
    streams = loader.streams([path])[path] if os.path.isdir(path) else [{path: textfile.read_bytes(path)}]
    layers: dict[str, list[dict[str, Any]]] = {}
    for stream in streams:
        for document in loader.read(stream):
            if os.path.basename(document.file) == export.INDEX:
                # An empty list of files is a layer without objects.
                layers.setdefault(_folder(document), [])
            else:
                layers.setdefault(_layer(document), []).append(document.plain)
    objects = [item for each in layers.values() for item in each]
    namespaces = {item.get("metadata", {}).get("namespace") for item in objects} - {None, "kube-system"}
    only = str(min(namespaces)) if len(namespaces) == 1 else None
    return RenderedFiles(path, layers, only, any(map(export.is_hook, objects)))


def _layer(document: ManifestDocument) -> str:
    labels = document.plain.get("metadata", {}).get("labels") or {}
    return str(labels[_CHART]) if labels.get(_CHART) in paths.LAYERS else _folder(document)


def _folder(document: ManifestDocument) -> str:
    name = os.path.basename(os.path.dirname(os.path.abspath(document.file)))
    return name if name in paths.LAYERS else OTHER
