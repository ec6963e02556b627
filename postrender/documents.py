"""Read manifests: from a file, from stdin, from all files of a folder. What is read together is installed together."""

from __future__ import annotations

import os
import sys

from postrender import paths, spots, stream, textio, twofold, yamlfast
from postrender.errors import InputError, Location, NotPlainError, UnreadableError
from postrender.progress import Progress
from postrender.tokens import SECRET_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, BinaryIO

    from postrender.pods import Path
    from postrender.spots import Spot
    from postrender.yamlio import Node

    # Texts that are installed together, by their names.
    Stream = dict[str, bytes]

_STDIN = "-"
_NAMED_STDIN = "<stdin>"
# So many are taken from a file at once.
_STEP = 4 * 1024 * 1024
# A value stands so many lines below its name at most.
_NEAR = 4
_SUFFIXES = (".yaml", ".yml", ".json")
# kustomize reads these, and a cluster never gets them.
_NO_OBJECTS = ("kustomization.yaml", "kustomization.yml")


class Document:
    """One document: the object that it holds, and the places of what is in it."""

    __slots__ = ("_root", "_spots", "file", "line", "plain", "text")

    def __init__(self, file: str, line: int, text: str, plain: dict[str, Any], root: Node | None = None) -> None:
        self.file = file
        self.line = line
        self.text = text
        self.plain = plain
        self._root = root
        self._spots: Spot | None = None

    @property
    def start(self) -> int:
        """Return the line of the file in which the object starts."""
        return self.place(()).line

    def place(self, path: Path, *, key: bool = False) -> Location:
        """Return where the value of a path stands, or its key, or what is nearest above it."""
        line, col = self._quick(path, key=key) or self._exact(path, key=key)
        return Location(self.file, self.line + line, col)

    def _quick(self, path: Path, *, key: bool) -> tuple[int, int] | None:
        """Return line and column where the text is so plain that no library is needed to find them."""
        if self._root is not None or not self.text.isascii():
            return None
        try:
            self._spots = self._spots or yamlfast.scan(self.text)
            offset = spots.offset(self._spots, path, key=key) if self._spots else None
        except NotPlainError:
            return None
        if offset is None:
            return None
        return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)

    def _exact(self, path: Path, *, key: bool) -> tuple[int, int]:
        node = self._places()
        for part in path:
            below = _below(node, part)
            if below is None:
                break
            node = below
        at = node.key_at if key else node.at
        return at.line, at.col

    def _places(self) -> Node:
        # Most documents have nothing to tell, and are never read for their places.
        if self._root is None:
            from postrender import yamlio

            (self._root,) = yamlio.parse(self.text.encode("utf-8"), self.file)
        return self._root


def _below(node: Node, part: str | int) -> Node | None:
    if isinstance(node.value, dict):
        return node.value.get(str(part))
    if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
        return node.value[part]
    return None


def read(texts: Stream, before: Callable[[], object] | None = None) -> list[Document]:
    """Read texts by their names; raise InputError with the place of what is no Kubernetes object.

    `before` prepares what the caller does next: where a second process helps, it is done while that one reads.
    """
    pieces = {file: [*stream.split(data)] for file, data in texts.items()}
    size = sum(map(len, texts.values()))
    parts = stream.parts([piece for each in pieces.values() for piece in each], size, twofold.MOST)
    # The longest first, so that nobody waits for it at the end.
    order = sorted(range(len(parts)), key=lambda number: parts[number][0].start - parts[number][-1].end)

    def read_part(number: int) -> list[dict[str, Any] | None]:
        return [_plain(piece) for piece in parts[order[number]]]

    # To read again takes no longer than to take over what another process has read.
    alone = size < twofold.LARGE or yamlfast.is_compiled()
    done = twofold.run(read_part, len(parts), Progress("parts"), alone=alone, before=before)
    read_parts = dict(zip(order, done, strict=True))
    trees = iter([tree for number in range(len(parts)) for tree in read_parts[number]])
    return [document for file in texts for document in _documents(file, texts[file], pieces[file], trees)]


def _plain(piece: stream.Document) -> dict[str, Any] | None:
    """Return the object of a document that is plain; None where another reader has more to say."""
    try:
        found = yamlfast.read(piece.text())
    except InputError:
        return None
    return found if found is not None and "kind" in found else None


def _documents(
    file: str, data: bytes, pieces: Sequence[stream.Document], trees: Iterator[dict[str, Any] | None]
) -> Iterator[Document]:
    # Whoever shows a line of it finds the text here: a pipe cannot be read again, and no file holds what was rendered.
    textio.keep(file, data)
    line, is_text = 0, False
    for piece in pieces:
        plain = next(trees)
        if plain is None and not is_text:
            # What is no text is not plain either.
            _check_text(file, data)
            is_text = True
        text = piece.text()
        if plain is not None:
            yield Document(file, line, text, plain)
        elif not _is_empty(text):
            yield from _with_places(file, data, line, text)
        line += text.count("\n")


def _check_text(file: str, data: bytes) -> None:
    try:
        textio.check_text(data, file)
    except InputError as error:
        error.secret = _may_show_secret(data, error)
        raise


def _may_show_secret(data: bytes, error: InputError) -> bool:
    """Say whether the line of an error may hold a secret: one of a Secret, or near a word that is called as one is."""
    lines = data.decode("utf-8", "replace").lower().split("\n")
    at = min(error.at.line if error.at else 1, len(lines))
    begin = max((number for number in range(at) if lines[number].startswith("---")), default=0)
    end = next((number for number in range(at, len(lines)) if lines[number].startswith("---")), len(lines))
    near = "\n".join(lines[max(0, at - _NEAR) : at + 1])
    return "secret" in "\n".join(lines[begin:end]) or any(word in near for word in SECRET_NAMES)


def _is_empty(text: str) -> bool:
    """Say whether there are comments only."""
    return all(line == "---" or not line.strip(" ") or line.lstrip(" ").startswith("#") for line in text.split("\n"))


def _with_places(file: str, data: bytes, line: int, text: str) -> Iterator[Document]:
    """Read a document that is not plain, or no object; nothing where it is empty."""
    from postrender import yamlio

    try:
        roots = [root for root in yamlio.parse(text.encode("utf-8"), file) if root.value is not None]
    except InputError as error:
        raise _of_file(error, data, file) from error
    for number, root in enumerate(roots):
        at = Location(file, line + root.at.line, root.at.col)
        if number:
            raise InputError("two documents without a --- line between them", at=at, fix="write --- above this one")
        _refuse_other_than_object(root, at)
        yield Document(file, line, text, root.plain(), root)


def _of_file(error: InputError, data: bytes, file: str) -> InputError:
    """Return what is wrong with a document as an error of its file."""
    from postrender import yamlio

    try:
        # Once more as a whole: then all lines of the message are lines of the file.
        yamlio.parse(data, file)
    except InputError as whole:
        error = whole
    error.secret = _may_show_secret(data, error)
    return error


def _refuse_other_than_object(root: Node, at: Location) -> None:
    if not isinstance(root.value, dict):
        found = "a list" if isinstance(root.value, list) else "a single value"
        raise InputError(f"expected a Kubernetes object, found {found}", at=at, fix="give manifests only")
    if "kind" not in root.value and os.path.basename(at.file) not in _NO_OBJECTS:
        fix = f"give manifests only; a values file goes behind -f: grpo check -f {at.file}"
        raise InputError("expected a Kubernetes object, found a map without kind", at=at, fix=fix)


def streams(words: Sequence[str]) -> list[Stream]:
    """Read what the command line names: files and stdin one by one, a folder's files as one, each folder below it too.

    What lies in two folders may be two versions of the same objects. Raises UnreadableError and InputError.
    """
    found: list[Stream] = []
    for word in dict.fromkeys(words):
        if word != _STDIN and os.path.isdir(word):
            folders = list(_folders(word))
            if not folders:
                raise InputError(f"{word}: no manifests in this folder", fix=f"expected {', '.join(_SUFFIXES)}")
            found += folders
        else:
            name = _NAMED_STDIN if word == _STDIN else word
            found.append({name: _read(word)})
    return found


def _folders(directory: str) -> Iterator[Stream]:
    def refuse(error: OSError) -> None:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(str(error.filename))) from error

    charts = []
    for folder, below, names in os.walk(directory, onerror=refuse):
        if paths.is_chart(folder):
            charts.append(folder)
            below[:] = []
            continue
        # Folders such as .github hold YAML that is for others.
        below[:] = sorted(name for name in below if not name.startswith("."))
        files = [os.path.join(folder, name) for name in sorted(names) if name.endswith(_SUFFIXES)]
        if files:
            yield {file: _read(file) for file in files}
    if charts:
        fix = f"name charts by themselves: grpo check {' '.join(sorted(charts))}"
        raise InputError(f"{charts[0]} is a chart, whose templates are no manifests yet", fix=fix)


def _whole(file: BinaryIO) -> bytes:
    """Return all bytes, or more than MAX_BYTES; asked for as many at once, Python takes the memory for them first."""
    parts: list[bytes] = []
    left = stream.MAX_BYTES + 1
    while left and (part := file.read(min(left, _STEP))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _read(path: str) -> bytes:
    if path == _STDIN and sys.stdin is None:
        raise UnreadableError(
            f"{_NAMED_STDIN}: this is closed", fix="pipe manifests into it: helm template … | grpo check -"
        )
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
