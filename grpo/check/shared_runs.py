"""Find runs of several stacks that have one directory: the same job.name in the same bucket."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from grpo.check import stacks
from grpo.manifests import attempts
from grpo.manifests.loader import ManifestDocument
from grpo.problems.reading import found
from postrender.finding import Finding
from postrender.manifests.pods import Path, mapping, objects

_RULE: Final = "checkpoints/shared-run-directory"
# The mount option that names a folder of a bucket.
_FOLDER: Final = "only-dir"

# The name of a bucket or an instance, and the folders of it that are mounted: the same in all clusters.
Storage = tuple[str, ...]


class _Run(NamedTuple):
    """A training among the documents: its name and claim, and what tells it from a copy of itself."""

    name: str
    claim: tuple[str, str]
    owner: tuple[str, str]
    document: ManifestDocument
    path: Path


def judge(streams: Iterable[Sequence[ManifestDocument]]) -> Iterator[Finding]:
    """Yield the runs whose directory a run of another stack or namespace has; clusters may differ, a bucket does not.

    The claim of a run is looked up in the folder of its stack. Two documents of the same run are copies.
    """
    stack_of = defaultdict(list)
    for documents in streams:
        for document in documents:
            stack_of[stacks.folder_of(document.file)].append(document)
    first: dict[tuple[str, Storage], _Run] = {}
    for documents in stack_of.values():
        stored = dict(_volumes(documents))
        for run in _runs(documents):
            if run.claim not in stored:
                continue
            storage = stored[run.claim]
            other = first.setdefault((run.name, storage), run)
            if other.owner != run.owner:
                yield _finding(run, storage, other)


def _finding(run: _Run, storage: Storage, other: _Run) -> Finding:
    where = f"{other.document.file}:{other.document.place(other.path).line}"
    what = f"run {run.name} has its directory in {storage[0]}, but so has run {run.name} in {where}"
    return found(_RULE, what, run.document.place((*run.path, "metadata", "name")))


def _runs(documents: Sequence[ManifestDocument]) -> Iterator[_Run]:
    for document in documents:
        for path, item in objects(document.plain):
            for (namespace, name), training in attempts.newest([item]).items():
                claim = namespace, training.place[1]
                yield _Run(name, claim, (namespace, stacks.stack_of(item)), document, path)


def _volumes(documents: Sequence[ManifestDocument]) -> Iterator[tuple[tuple[str, str], Storage]]:
    """Yield the claims of the volumes that the chart storage makes of buckets and instances, and what they are."""
    for document in documents:
        for _, item in objects(document.plain):
            spec = mapping(item.get("spec"))
            handle = mapping(spec.get("csi")).get("volumeHandle")
            if item.get("kind") == "PersistentVolume" and stacks.stack_of(item) and handle:
                claim = mapping(spec.get("claimRef"))
                yield (str(claim.get("namespace")), str(claim.get("name"))), (str(handle), *_folders(spec))


def _folders(spec: Mapping[str, Any]) -> Iterator[str]:
    options = spec.get("mountOptions")
    yield from (str(each) for each in options or () if str(each).startswith(_FOLDER))
