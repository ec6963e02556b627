"""Read manifests from files, folders and stdin; each stream is judged as one installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from postrender import paths, textfile
from postrender.errors import InputError, Location, UnreadableError
from postrender.manifests.pods import Path
from postrender.secrets import NAME_PART
from postrender.types import Json
from postrender.yaml import reader, stream
from postrender.yaml.reader import Node

# Texts, by name, that are installed together.
Stream = dict[str, bytes]

_STDIN = "-"
_NAMED_STDIN = "<stdin>"
# The number of bytes to read at once.
_STEP = 4 * 1024 * 1024
# A value is at most this many lines below its name.
_NEAR = 4
SUFFIXES = (".yaml", ".yml", ".json")
# Files that kustomize reads and that are not installed.
NO_OBJECTS = ("kustomization.yaml", "kustomization.yml")
_OF_KUSTOMIZE = "kustomize.config.k8s.io/"
# With these keys, kustomize installs something else than the files beside it.
_CHANGES = frozenset(
    (
        *("bases", "components", "namePrefix", "nameSuffix", "namespace"),
        *("patches", "patchesJson6902", "patchesStrategicMerge"),
    )
)


class ManifestDocument:
    """One document: its object and the locations of its values.

    `line` is the number of lines above the document in the file.
    """

    def __init__(self, file: str, line: int, text: str, plain: dict[str, Any]) -> None:
        self.file = file
        self.line = line
        self.text = text
        self.plain = plain
        self._root: Node | None = None

    @property
    def start(self) -> int:
        """Return the line in the file where the object starts."""
        return self.place(()).line

    def place(self, path: Path, *, key: bool = False) -> Location:
        """Return the location of the value at a path, or of its key; if there is none, that of the nearest parent."""
        node = self._places()
        for part in path:
            below = _below(node, part)
            if below is None:
                break
            node = below
        at = node.key_at if key else node.at
        return Location(self.file, self.line + at.line, at.col)

    def _places(self) -> Node:
        # Most documents have no finding, so read the locations on demand.
        if self._root is None:
            roots = reader.parse(self.text.encode("utf-8"), self.file, tags=True)
            self._root = next(root for root in roots if root.value is not None)
        return self._root


def _below(node: Node, part: str | int) -> Node | None:
    if isinstance(node.value, dict):
        return node.value.get(str(part))
    if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
        return node.value[part]
    return None


def read(texts: Stream) -> list[ManifestDocument]:
    """Read texts by name; raise InputError with a document's place if the document is not a Kubernetes object."""
    return [document for file, data in texts.items() for document in _documents(file, data)]


def _documents(file: str, data: bytes) -> Iterator[ManifestDocument]:
    # Reports show lines later: a pipe cannot be read twice, and rendered text is not a file.
    textfile.keep(file, data)
    _check_text(file, data)
    line = 0
    for piece in stream.split(data):
        text = piece.text()
        try:
            values = [value for value in reader.load_all(text, file) if value is not None]
        except InputError as error:
            raise _of_file(error, data, file) from error
        if values:
            _refuse_other_than_object(values, file, line, text)
            yield ManifestDocument(file, line, text, values[0])
        line += text.count("\n")


def _check_text(file: str, data: bytes) -> None:
    try:
        textfile.check_text(data, file)
    except InputError as error:
        error.secret = _may_show_secret(data, error)
        raise


def _may_show_secret(data: bytes, error: InputError) -> bool:
    """Return whether an error's line may contain a secret, because the line is in a Secret or near a telling key."""
    lines = data.decode("utf-8", "replace").lower().split("\n")
    at = min(error.at.line if error.at else 1, len(lines))
    begin = max((number for number in range(at) if lines[number].startswith("---")), default=0)
    end = next((number for number in range(at, len(lines)) if lines[number].startswith("---")), len(lines))
    near = "\n".join(lines[max(0, at - _NEAR) : at + 1])
    return "secret" in "\n".join(lines[begin:end]) or NAME_PART.search(near) is not None


def _of_file(error: InputError, data: bytes, file: str) -> InputError:
    """Return a document's error as an error of its file."""
    try:
        # Read the whole file, so that all line numbers in the message count from its start.
        reader.parse(data, file, tags=True)
    except InputError as whole:
        error = whole
    error.secret = _may_show_secret(data, error)
    return error


def _refuse_other_than_object(values: Sequence[Any], file: str, line: int, text: str) -> None:
    """Raise InputError if a document is not a single object with a kind."""
    has_kind = os.path.basename(file) in NO_OBJECTS or (isinstance(values[0], dict) and "kind" in values[0])
    if len(values) == 1 and isinstance(values[0], dict) and has_kind:
        return
    first, *more = [root for root in reader.parse(text.encode("utf-8"), file, tags=True) if root.value is not None]
    at = Location(file, line + first.at.line, first.at.col)
    if not isinstance(first.value, dict):
        found = "a list" if isinstance(first.value, list) else "a single value"
        raise InputError(f"expected a Kubernetes object, found {found}", at=at, fix="give manifests only")
    if not has_kind:
        fix = f"give manifests only; pass a values file with -f: grpo lint -f {file}"
        raise InputError("expected a Kubernetes object, found a map without a kind", at=at, fix=fix)
    second = Location(file, line + more[0].at.line, more[0].at.col)
    raise InputError("two documents without a --- line between them", at=second, fix="write --- above the second one")


def streams(words: Sequence[str]) -> dict[str, list[Stream]]:
    """Read each command-line argument into its streams: a file, a folder and stdin are one stream each.

    A file that an earlier argument has named or contained is not read again. Two folders may contain different versions
    of the same objects. Raises UnreadableError if a path cannot be read, and InputError if a document is invalid.
    """
    found: dict[str, list[Stream]] = {}
    seen: set[str] = set()
    for word in dict.fromkeys(words):
        if word != _STDIN:
            textfile.refuse_outside(word)
        if word != _STDIN and os.path.isdir(word):
            given = list(_folders(word))
            if not given:
                raise InputError(f"{word}: the folder contains no manifests", fix=f"expected {', '.join(SUFFIXES)}")
        else:
            given = [{_NAMED_STDIN if word == _STDIN else word: _read(word)}]
        fresh = [{name: text for name, text in each.items() if os.path.realpath(name) not in seen} for each in given]
        found[word] = [each for each in fresh if each]
        seen |= {os.path.realpath(name) for each in given for name in each}
    return found


def kustomize_changes(folder: str) -> bool:
    """Return whether kustomize changes a folder's objects: patches, a different namespace, other folders' files."""
    for place in (os.path.join(folder, name) for name in NO_OBJECTS):
        try:
            head = next(iter(reader.load_all(_read(place).decode("utf-8", "replace"), place)), None)
        except (InputError, UnreadableError):
            continue
        keys = head if isinstance(head, dict) else {}
        return bool(_CHANGES & {*keys}) or any("/" in name or name == ".." for name in listed(keys))
    return False


def listed(index: Mapping[str, Any]) -> list[str]:
    """Return what a kustomization lists as its resources."""
    names = index.get("resources")
    return [str(name) for name in names] if isinstance(names, list) else []


def is_index(document: ManifestDocument) -> bool:
    """Return whether kustomize reads a document as what its folder installs; Flux has objects of the same kind."""
    version = str(document.plain.get("apiVersion") or _OF_KUSTOMIZE)
    return os.path.basename(document.file) in NO_OBJECTS and version.startswith(_OF_KUSTOMIZE)


def named(index: Json) -> set[str]:
    """Return the texts in a kustomization that may name a file beside it, as key=FILE too."""
    if isinstance(index, str):
        return {os.path.normpath(index.rpartition("=")[2])}
    below = index.values() if isinstance(index, dict) else index if isinstance(index, list) else ()
    return {name for each in below for name in named(each)}


def _folders(directory: str) -> Iterator[Stream]:
    def refuse(error: OSError) -> None:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(str(error.filename))) from error

    charts = []
    for folder, below, names in os.walk(directory, onerror=refuse):
        if paths.is_chart(folder):
            charts.append(folder)
            below[:] = []
            continue
        # Folders such as .github contain YAML for other tools.
        below[:] = sorted(name for name in below if not name.startswith("."))
        places = (os.path.join(folder, name) for name in sorted(names) if name.endswith(SUFFIXES))
        # A link that leads nowhere is an error when it is read; a named pipe would never end.
        files = [place for place in places if os.path.isfile(place) or os.path.islink(place)]
        if files:
            yield {file: _read(file) for file in files}
    if charts:
        fix = f"give each chart as an argument: grpo check {' '.join(sorted(charts))}"
        raise InputError(f"{charts[0]} is a chart: its templates are not manifests yet", fix=fix)


def _whole(file: BinaryIO) -> bytes:
    """Return all bytes, or just over MAX_BYTES, read in steps: one large read would allocate its buffer first."""
    parts: list[bytes] = []
    left = stream.MAX_BYTES + 1
    while left and (part := file.read(min(left, _STEP))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _read(path: str) -> bytes:
    if path == _STDIN and sys.stdin is None:
        raise UnreadableError(f"{_NAMED_STDIN} is closed", fix="pipe manifests into it: helm template … | grpo check -")
    try:
        if path == _STDIN:
            data = _whole(sys.stdin.buffer)
        else:
            with open(path, "rb") as file:
                data = _whole(file)
    except FileNotFoundError as error:
        raise UnreadableError("there is no such file or folder", at=Location(path), fix="check the path") from error
    except (OSError, ValueError) as error:
        raise UnreadableError(f"cannot be read: {error}", at=Location(path), fix="check the path") from error
    if len(data) > stream.MAX_BYTES:
        limit = stream.MAX_BYTES // (1024 * 1024)
        raise InputError(f"{path}: larger than {limit} MiB", fix="check one chart at a time")
    return data
