"""Read YAML as Helm does, with the location of every key and value. Only this module and builder.py use PyYAML."""

# ruff: noqa: TID251 - this module and builder.py may import yaml

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import ScalarEvent, StreamEndEvent
from yaml.reader import ReaderError

from postrender.errors import InputError, Location
from postrender.textfile import check_text, place, read_bytes
from postrender.types import Json, Untyped
from postrender.yaml import scalars
from postrender.yaml.builder import Builder, too_deep
from postrender.yaml.scalars import Scalar

Value = dict[str, "Node"] | list["Node"] | Scalar

T = TypeVar("T")

# The parser's message on `[fd00::]`.
_COLON = "found unexpected ':'"
# And on a tab or another character that no value begins with.
_NO_START: Final = "found character that cannot start any token"
# In the message of PyYAML 6.0.4 and newer on a text of 1000 levels.
_DEEP: Final = "maximum nesting depth"
# Helm 4 splits a file at every line that starts with these, even inside a block scalar.
_CUT = re.compile(rb"^---(?![ \t]*(?:#.*)?\r?$)", re.MULTILINE)


class Node:
    """One value (a map of nodes, a list of nodes or a scalar) with the locations of the value and its key.

    `spelled` is the key as written in the file if Helm reads the unquoted key as a boolean (`n` becomes "false").
    `written` is the value as written in the file if it is an integer with more digits than Helm keeps.
    """

    __slots__ = ("at", "key_at", "spelled", "value", "written")

    def __init__(
        self, value: Value, at: Location, key_at: Location | None = None, spelled: str = "", written: str = ""
    ) -> None:
        self.value = value
        self.at = at
        self.key_at = key_at or at
        self.spelled = spelled
        self.written = written

    def children(self) -> Iterable[Node]:
        """Return the child nodes of a map or a list; nothing for a scalar."""
        if isinstance(self.value, dict):
            return self.value.values()
        return self.value if isinstance(self.value, list) else ()

    def plain(self) -> Json:
        """Return the value without locations."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class _NodeBuilder(Builder):
    """Build nodes with locations instead of plain values."""

    def _made(self, value: Json, event: Untyped) -> Node:
        return Node(value, self._at(event), written=_written(event))

    def _entry(self, value: Node, key: Untyped) -> Node:
        return Node(value.value, value.at, self._at(key), _spelled(key), value.written)

    def _bare(self, value: Node) -> Json:
        return value.value


def _spelled(key: Untyped) -> str:
    """Return an unquoted key that Helm reads as a boolean, as written in the file; empty for every other key."""
    plain = isinstance(key, ScalarEvent) and key.implicit[0]
    return key.value if plain and isinstance(scalars.WORDS.get(key.value), bool) else ""


def _written(event: Untyped) -> str:
    plain = isinstance(event, ScalarEvent) and event.implicit[0] and event.tag is None
    return event.value if plain and scalars.loses_digits(event.value) else ""


def _place(error: MarkedYAMLError, data: bytes, file: str) -> Location:
    """Return an error's location; for an unclosed element, where it opens if that is known, else the last line."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Location(file)
    if error.context_mark and _is_end(mark, data):
        mark = error.context_mark
    if _is_end(mark, data):
        return Location(file, *place(data, len(data.rstrip()) - 1))
    return Location(file, mark.line + 1, mark.column + 1)


def _is_end(mark: Untyped, data: bytes) -> bool:
    return bool(mark.index >= len(data.decode("utf-8-sig")))


def _is_tab(error: MarkedYAMLError, data: bytes) -> bool:
    """Return whether the error is a tab where only spaces are allowed."""
    mark = error.problem_mark
    at_tab = mark is not None and data.decode("utf-8-sig")[mark.index : mark.index + 1] == "\t"
    return at_tab and ("tab character" in str(error.problem) or error.problem == _NO_START)


def _refusal(error: YAMLError, data: bytes, file: str) -> InputError:
    """Convert a parser error into an InputError with a location."""
    if data.startswith(b"#!") or file.endswith((".sh", ".py")):
        fix = "give the YAML that the program reads or prints"
        return InputError("this is not YAML, but a program", at=Location(file, 1, 1), fix=fix)
    if isinstance(error, MarkedYAMLError):
        at = _place(error, data, file)
        if _DEEP in str(error.problem):
            return too_deep(at)
        if _is_tab(error, data):
            return InputError("this is not YAML: a tab indents this line", at=at, fix="indent with spaces")
        context = f" {error.context}" if error.context else ""
        if context and error.context_mark and error.context_mark.line + 1 < at.line:
            context += f" that begins in line {error.context_mark.line + 1}"
        # Helm's reader treats the colon as a part of the word; other readers refuse it.
        fix = "put the word in quotes" if error.problem == _COLON else "check quotes, brackets and indentation"
        return InputError(f"this is not YAML: {error.problem}{context}", at=at, fix=fix)
    if isinstance(error, ReaderError):
        at = Location(file, *place(data, error.position))
        return InputError(f"this is not YAML: {error.reason}", at=at, fix="delete the character, or escape it")
    return InputError(f"this is not YAML: {error}", at=Location(file))


def parse(data: bytes, file: str, *, tags: bool = False) -> list[Node]:
    """Read every document of a stream with locations; `tags` allows YAML tags, as Kubernetes does.

    Raises InputError with the location of the first mistake.
    """
    return _read(lambda: list(_NodeBuilder(data, file, tags=tags).documents()), data, file)


def load_all(text: str, name: str) -> list[Any]:
    """Read every document of a manifest as plain values; `name` is its name in messages.

    Raises InputError with the location of the first mistake.
    """
    data = text.encode("utf-8")
    return _read(lambda: list(Builder(data, name, tags=True).documents()), data, name)


def load_head(text: str, name: str) -> Json:
    """Read apiVersion, kind and metadata of a manifest's first document, and stop there.

    A document that is not a map is read in full. Raises InputError if the part that is read has a mistake.
    """
    data = text.encode("utf-8")
    return _read(lambda: Builder(data, name, tags=True).head(), data, name)


def _read(build: Callable[[], T], data: bytes, file: str) -> T:
    check_text(data, file)
    try:
        return build()
    except YAMLError as error:
        raise _refusal(error, data, file) from error


def events(text: str, name: str) -> Iterator[Untyped]:
    """Yield one document's parser events; offsets count characters.

    Raises InputError if the text is not YAML.
    """
    parser = CParser(text)
    try:
        while not isinstance(event := parser.get_event(), StreamEndEvent):
            if type(event).__name__ not in ("StreamStartEvent", "DocumentStartEvent", "DocumentEndEvent"):
                yield event
    except YAMLError as error:
        raise _refusal(error, text.encode("utf-8"), name) from error


def load_values(path: str | os.PathLike[str]) -> Node:
    """Read one values file as Helm reads it; the root node is a map, which is empty for an empty file.

    Raises UnreadableError if the file is missing, a directory or not permitted, and InputError for any other error.
    """
    file = os.fspath(path)
    return values_from_bytes(read_bytes(file), file)


def values_from_bytes(data: bytes, file: str) -> Node:
    """Read a values document from memory; `file` is its name in messages."""
    documents = parse(data, file)
    second = next((node for node in documents[1:] if node.value is not None), None)
    if second:
        raise InputError(
            "a second YAML document starts here: Helm 3 would ignore it and Helm 4 would merge it",
            at=second.at,
            fix="delete the --- line, or put the second part into another file",
        )
    if cut := _CUT.search(data):
        raise InputError(
            "Helm 4 cuts the file at a line that starts with ---",
            at=Location(file, *place(data, cut.start())),
            fix="leave --- alone on its line, or indent the text",
        )
    root = documents[0] if documents else Node(None, Location(file, 1, 1))
    if root.value is None:
        return Node({}, Location(file, 1, 1))
    if not isinstance(root.value, dict):
        found = "a list" if isinstance(root.value, list) else "a single value"
        raise InputError(f"expected `key: value` lines at the top, found {found}", at=root.at, fix="start with a key")
    return root


def load_objects(text: str, name: str) -> list[dict[str, Any]]:
    """Read a manifest as one map per document, without empty documents; `name` is its name in messages."""
    values = [value for value in load_all(text, name) if value is not None]
    if all(isinstance(value, dict) for value in values):
        return values
    other = next(
        node for node in parse(text.encode("utf-8"), name, tags=True) if not isinstance(node.value, dict | None)
    )
    raise InputError("expected a Kubernetes object", at=other.at)
