"""Compare the kustomization of a folder with its files: what it does not list is not installed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from grpo.manifests import export
from grpo.manifests.loader import NO_OBJECTS, SUFFIXES, ManifestDocument, is_index, listed, named
from grpo.problems.reading import found
from postrender.finding import Finding
from postrender.manifests.pods import Path

_EDITED: Final = "kustomize/edited-by-hand"
_NOT_LISTED: Final = "kustomize/file-not-listed"
_MISSING: Final = "kustomize/file-missing"
_RENDER: Final = "restore it from Git, or run grpo render --output-dir again"


def judge(documents: Sequence[ManifestDocument]) -> Iterator[Finding]:
    """Yield findings about the kustomizations among the documents of a folder."""
    for document in documents:
        if is_index(document) and os.path.isfile(document.file):
            yield from _judge(document)


def _judge(index: ManifestDocument) -> Iterator[Finding]:
    folder, own = os.path.split(index.file)
    is_ours = index.text.startswith(export.MARK)
    resources = listed(index.plain)
    for at, name in enumerate(resources):
        if _is_file(name) and not os.path.lexists(os.path.join(folder, name)):
            what = f"{own} lists {name}, which is not in the folder"
            yield _at(index, _MISSING, ("resources", at), what, _RENDER if is_ours else "")
        elif is_ours and not export.FILE.fullmatch(name):
            what = f"grpo render wrote this {own}, and does not list {name}"
            yield _at(index, _EDITED, ("resources", at), what, _RENDER)
    known = named(index.plain)
    present = sorted(name for name in os.listdir(folder or ".") if name.endswith(SUFFIXES) and name not in NO_OBJECTS)
    for name in [each for each in present if each not in known]:
        what = f"{name} is in the folder, and {own} does not list it: it is not installed, and pruning deletes it"
        yield _at(index, _EDITED if is_ours else _NOT_LISTED, ("resources",), what, _RENDER if is_ours else "")
    for key in (each for each in index.plain if is_ours and each not in export.KEYS):
        what = f"grpo render wrote this {own} without {key}: what is installed is not what the files say"
        yield _at(index, _EDITED, (key,), what)


def _at(index: ManifestDocument, rule: str, path: Path, what: str, fix: str = "") -> Finding:
    return found(rule, what, index.place(path, key=len(path) == 1), fix)


def _is_file(name: str) -> bool:
    return name.endswith(SUFFIXES) and "://" not in name
