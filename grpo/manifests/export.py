"""Write rendered manifests into a folder for Git: one object per file, with identical bytes every time.

Each layer's folder has a kustomization.yaml that lists the files in installation order, for `kubectl apply -k`,
Argo CD and Flux. It also records what this module wrote: only listed files are ever removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grpo.helm.engines import Rendered
from grpo.manifests import folds, runs
from grpo.manifests.diff import dotted
from grpo.manifests.runs import Ending
from postrender import output_file, paths
from postrender.counting import counted
from postrender.errors import InputError, OutputError, OutputRefusedError, RenderError
from postrender.manifests import apiserver
from postrender.manifests.apiserver import Object, Refusal
from postrender.manifests.pods import mapping
from postrender.yaml import reader

INDEX = "kustomization.yaml"
# The keys of an index.
KEYS = frozenset(("apiVersion", "kind", "sortOptions", "resources"))
MARK = "# Written by grpo render --output-dir, which rewrites and removes the files listed here. Do not edit.\n"
_HEAD = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nsortOptions: {order: fifo}\n"
_OWNER = "# Of"
_STACK = "app.kubernetes.io/part-of"
FILE = re.compile(r"[a-z0-9][a-z0-9.-]*\.yaml")
_MAX_STEM = 200

# The objects of files, each with its path.
_Files = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Written:
    """Counts for one layer's folder (objects, files written and removed), and what the changes do to runs."""

    folder: str
    objects: int
    written: int
    removed: int
    endings: Sequence[Ending] = ()

    def __str__(self) -> str:
        return f"{self.folder}: {counted(self.objects, 'object')}, {self.written} written, {self.removed} removed"


def _documents(rendered: Rendered) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each document's text, as Helm printed it, and its object."""
    texts = [f"{part.strip()}\n" for part in re.split(r"^---[ \t]*$", rendered.manifest, flags=re.MULTILINE)]
    pairs = [(text, each) for text in texts for each in reader.load_objects(text, f"<{rendered.chart}>")]
    if [each for _, each in pairs] != list(rendered.documents):
        raise RenderError(f"the manifest of {rendered.chart} cannot be split into one object per file")
    yield from pairs


def is_hook(item: Mapping[str, Any]) -> bool:
    """Return whether only a later Helm command creates this object: a test, an upgrade, a rollback."""
    metadata = item.get("metadata") or {}
    hooks = str((metadata.get("annotations") or {}).get("helm.sh/hook", ""))
    return bool(hooks) and not any(hook.strip().endswith("-install") for hook in hooks.split(","))


def _plain_name(identity: tuple[str, ...]) -> str:
    """Return KIND-NAME.yaml, with a digest if the name is not a valid file name."""
    _, kind, _, name = identity
    wanted = f"{kind.lower()}-{name}"
    safe = re.sub(r"[^a-z0-9.-]", "-", wanted)[:_MAX_STEM]
    return f"{safe}.yaml" if safe == wanted else _distinct_name(identity)


def _distinct_name(identity: tuple[str, ...]) -> str:
    _, kind, _, name = identity
    safe = re.sub(r"[^a-z0-9.-]", "-", f"{kind.lower()}-{name}")[:_MAX_STEM]
    return f"{safe}-{hashlib.sha256('/'.join(identity).encode()).hexdigest()[:8]}.yaml"


def files(rendered: Rendered) -> dict[str, str]:
    """Return each file's text by name, in installation order, without the objects of `helm test`.

    Raises InputError if two documents are the same object.
    """
    texts: dict[tuple[str, ...], str] = {}
    for text, item in _documents(rendered):
        if is_hook(item):
            continue
        identity = apiserver.identity(item)
        if identity in texts:
            _, kind, namespace, name = identity
            place = f" in namespace {namespace}" if namespace else ""
            raise InputError(
                f"{rendered.chart} renders {kind} {name}{place} twice: the second one would overwrite the first"
            )
        texts[identity] = text
    names = [_plain_name(identity) for identity in texts]
    return {
        name if names.count(name) == 1 else _distinct_name(identity): text
        for name, (identity, text) in zip(names, texts.items(), strict=True)
    }


def _owner(rendered: Rendered) -> str:
    """Return the objects' stack and namespace, as recorded in the index; empty if unknown."""
    metadata = [each["metadata"] for each in rendered.documents]
    stacks = sorted({(each.get("labels") or {}).get(_STACK, "") for each in metadata} - {""})
    if not stacks:
        return ""
    namespaces = sorted({each.get("namespace", "") for each in metadata} - {"", "kube-system"})
    return "".join(
        f" {kind} {name}" for kind, names in (("stack", stacks), ("namespace", namespaces)) for name in names
    )


def _index(names: Sequence[str], owner: str) -> str:
    listed = "".join(f"  - {name}\n" for name in names)
    comment = f"{_OWNER}{owner}\n" if owner else ""
    return f"{MARK}{comment}{_HEAD}resources:{' []' if not names else ''}\n{listed}"


def _read_index(path: str, owner: str) -> list[str]:
    """Return the files that an earlier export listed.

    Raises OutputRefusedError if the index belongs to another tool or stack: its files would be removed, and a GitOps
    tool that prunes would end a running training job.
    """
    with open(path, "rb") as file:
        data = file.read()
    fix = "give another folder, or restore the file from Git"
    if not data.startswith(MARK.encode()):
        raise OutputRefusedError(f"{path}: not written by grpo render, so this folder is not changed", fix=fix)
    second = data.decode(errors="replace").split("\n", 2)[1]
    if owner and second.startswith(f"{_OWNER} ") and second != f"{_OWNER}{owner}":
        raise OutputRefusedError(
            f"{path}: the folder holds{second.removeprefix(_OWNER)}, and these values are{owner}",
            fix="give each stack its own folder, or remove this one first",
        )
    try:
        (index,) = reader.load_objects(data.decode(), path)
        names = [str(name) for name in index["resources"]]
    except (InputError, ValueError, LookupError, TypeError) as error:
        raise OutputRefusedError(f"{path}: cannot be read as a list of files", fix=fix) from error
    for name in names:
        if not FILE.fullmatch(name) or name == INDEX:
            raise OutputRefusedError(f"{path}: {name!r} is not a file that grpo render writes", fix=fix)
    return names


def _former(folder: str, owner: str) -> list[str]:
    """Return the files of an earlier export; raise OutputRefusedError if the folder contains anything else."""
    if os.path.islink(folder):
        fix = "give another folder, or delete the link"
        raise OutputRefusedError(f"{folder}: is a symbolic link, so nothing is written or removed there", fix=fix)
    if not os.path.lexists(folder):
        return []
    if not os.path.isdir(folder):
        raise OutputRefusedError(f"{folder}: not a folder", fix="give another folder with --output-dir")
    present = {name for name in os.listdir(folder) if not name.startswith(output_file.DRAFT)}
    former = _read_index(os.path.join(folder, INDEX), owner) if INDEX in present else []
    foreign = sorted(present - {INDEX, *former})
    odd = sorted(name for name in present if not stat.S_ISREG(os.lstat(os.path.join(folder, name)).st_mode))
    for name in foreign or odd:
        path = os.path.join(folder, name)
        if name in foreign and name not in odd and _is_rendered(path):
            raise OutputRefusedError(
                f"{path}: grpo render wrote it, and {INDEX} beside it does not list it, so this folder is not changed",
                fix=f"restore {os.path.join(folder, INDEX)} from Git, or delete the file if nothing needs it",
            )
        raise OutputRefusedError(
            f"{path}: not written by grpo render, so this folder is not changed",
            fix="move it away, or give another folder with --output-dir",
        )
    return former


def _is_rendered(path: str) -> bool:
    """Return whether a file begins as those do that Helm renders of the layer with the name of its folder."""
    layer = os.path.basename(os.path.dirname(os.path.abspath(path)))
    with open(path, "rb") as file:
        return file.readline().startswith(f"# Source: {layer}/".encode())


def _refuse_locked(before: Mapping[str, _Files], after: Mapping[str, Sequence[Object]]) -> None:
    """Raise OutputRefusedError if applying the files over the existing ones would be rejected.

    The existing files may be what a cluster has; once they were replaced, nothing would reveal the mistake.
    """
    found = [each for folder, old in before.items() for each in _locked(old, after[folder])]
    for path, refusal in found:
        more = f" ({len(found) - 1} more: grpo diff --left)" if len(found) > 1 else ""
        what = refusal.why or (
            f"the API server refuses to change {', '.join(map(dotted, refusal.fields))} of {refusal.object}"
        )
        raise OutputRefusedError(f"{path}: {what}, so nothing is written{more}", fix=refusal.fix)


def _locked(before: _Files, after: Sequence[Object]) -> Iterator[tuple[str, Refusal]]:
    """Yield what would be rejected in a folder's new files, each with the earlier file that it concerns."""
    files_of = {"/".join(apiserver.identity(item)[1::2]): path for path, item in before}
    for refusal in runs.refusals([item for _, item in before], after):
        yield files_of[refusal.object], refusal


def _there(folder: str, names: Sequence[str]) -> _Files:
    """Return the objects in the files of an earlier export."""
    there = [path for name in names if os.path.exists(path := os.path.join(folder, name))]
    return [(path, item) for path in there for item in _present(path)]


def _present(path: str) -> list[dict[str, Any]]:
    """Return a file's object; none if the file is damaged, because it is then rewritten."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return reader.load_objects(data.decode(), path)
    except (InputError, UnicodeDecodeError):
        return []


def _put(folder: str, name: str, text: str) -> bool:
    return output_file.replace_if_changed(os.path.join(folder, name), text.encode())


def _write(folder: str, texts: Mapping[str, str], former: Sequence[str], owner: str) -> Written:
    stale = [name for name in former if name not in texts]
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.startswith(output_file.DRAFT):
            # An earlier run was killed.
            os.unlink(os.path.join(folder, name))
    if not {*texts} <= {*former}:
        # List every file before it is written: after an interruption, the next run refuses files that are not listed.
        _put(folder, INDEX, _index([*texts, *stale], owner))
    written = sum([_put(folder, name, text) for name, text in texts.items()])
    removed = 0
    for name in stale:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
            removed += 1
    _put(folder, INDEX, _index([*texts], owner))
    return Written(folder, len(texts), written, removed)


def others(directory: str, layers: Mapping[str, Rendered]) -> list[str]:
    """Return what else an --output-dir folder contains: neither a layer written now nor one of an earlier export."""
    found = ((name, os.path.join(directory, name)) for name in sorted(os.listdir(directory)) if name not in layers)
    return [path for name, path in found if name not in paths.LAYERS or not os.path.isfile(os.path.join(path, INDEX))]


def write(directory: str, layers: Mapping[str, Rendered], left: Sequence[str] = ()) -> list[Written]:
    """Write each layer into its folder below `directory`, and remove stale files of an earlier export.

    A layer in `left` keeps its folder, with an empty list, if an earlier export wrote it: for a missing folder, Argo CD
    and Flux would report an error and keep the objects. All folders are checked before anything is written. Raises
    InputError if two documents are the same object, OutputRefusedError if a folder cannot be used or a cluster would
    reject the files, and OutputError if the system refuses to write.
    """
    try:
        texts = {os.path.join(directory, layer): files(rendered) for layer, rendered in layers.items()}
        owners = {os.path.join(directory, layer): _owner(rendered) for layer, rendered in layers.items()}
        for folder in (os.path.join(directory, layer) for layer in left):
            if os.path.lexists(os.path.join(folder, INDEX)):
                texts[folder], owners[folder] = {}, max(owners.values(), key=len, default="")
        former = {folder: _former(folder, owners[folder]) for folder in texts}
        before = {folder: _there(folder, names) for folder, names in former.items()}
        after = {
            folder: [item for name, text in named.items() for item in reader.load_objects(text, name)]
            for folder, named in texts.items()
        }
        _refuse_locked(before, after)
        every = [item for items in after.values() for item in items]
        endings = {
            folder: runs.endings([item for _, item in before[folder]], after[folder], elsewhere=every)
            for folder in texts
        }
        return [
            replace(_write(folder, texts[folder], former[folder], owners[folder]), endings=endings[folder])
            for folder in texts
        ]
    except OSError as error:
        raise OutputError(
            f"{error.filename or directory}: cannot be written: {error.strerror}",
            fix="check the folder after --output-dir",
        ) from error


def write_programs(directory: str, layers: Mapping[str, Rendered]) -> list[str]:
    """Write the programs that the RayJobs carry into a new or empty folder; return their names, sorted.

    Raises OutputRefusedError if the folder has files, OutputError if the system refuses to write, and InputError if
    no object carries programs.
    """
    jobs = [each for layer in layers.values() for each in layer.documents if each.get("kind") == "RayJob"]
    found: dict[str, str] = {}
    for job in jobs:
        found |= folds.programs(str(mapping(job.get("spec")).get("entrypoint", "")))
    if not found:
        raise InputError("no object carries programs of the charts", fix="render the layer grpo-job")
    try:
        os.makedirs(directory, exist_ok=True)
        if os.listdir(directory):
            raise OutputRefusedError(f"{directory}: is not empty", fix="name a new folder")
        for name, text in found.items():
            path = os.path.join(directory, *name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            output_file.create(path, text.encode())
    except OSError as error:
        raise OutputError(f"{directory}: cannot be written: {error.strerror}", fix="name another folder") from error
    return sorted(found)
