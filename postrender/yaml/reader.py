"""Read YAML as Helm does, with the place of every key and value. No other module uses PyYAML."""

# ruff: noqa: TID251 - this is the one module that may import yaml

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from postrender.errors import InputError, Location
from postrender.textfile import check_text, place, read_bytes
from postrender.types import Json, Untyped
from postrender.yaml import scalars
from postrender.yaml.scalars import Scalar

Value = dict[str, "Node"] | list["Node"] | Scalar

T = TypeVar("T")

MAX_DEPTH = 100
MAX_NODES = 1_000_000
# The keys that identify an object.
_HEAD = ("apiVersion", "kind", "metadata")
_TAG = "tag:yaml.org,2002:"
_RESOLVED = frozenset(f"{_TAG}{kind}" for kind in ("int", "float", "bool", "null"))
# The parser's message on `[fd00::]`.
_COLON = "found unexpected ':'"
_GO_REFUSES = re.compile(r"(?<!\\)(?:\\\\)*\\/")
# Helm 4 splits a file at every line that starts with these, even inside a block scalar.
_CUT = re.compile(rb"^---(?![ \t]*(?:#.*)?\r?$)", re.MULTILINE)


class Node:
    """One value (a map of nodes, a list of nodes or a scalar) with the places of the value and of its key.

    `spelled` is the key as in the file if Helm reads the unquoted key as a boolean (`n` becomes "false").
    `written` is the value as in the file if it is an integer with more digits than Helm keeps.
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
        """Return the nodes of a map or a list; nothing for a scalar."""
        if isinstance(self.value, dict):
            return self.value.values()
        return self.value if isinstance(self.value, list) else ()

    def plain(self) -> Json:
        """Return the value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class _Builder:
    """Build plain values from parser events.

    The parser's own composer recurses on the C stack; this builder limits the nesting itself.
    """

    def __init__(self, data: bytes, file: str, *, tags: bool) -> None:
        self._tags = tags
        self._parser = CParser(data)
        self._next: Callable[[], Untyped] = self._parser.get_event
        self._slashes = data.decode("utf-8") if b"\\/" in data else ""
        self._file = file
        self._anchors: dict[str, Any] = {}
        self._count = 0
        self._brackets = 0

    def documents(self) -> Iterator[Any]:
        """Yield the value of every document."""
        for event in self._roots():
            yield self._value(event, 0)
            self._next()

    def head(self) -> Json:
        """Return apiVersion, kind and metadata of the first document, and stop reading there.

        A document that is not a map is returned whole.
        """
        event = next(self._roots(), None)
        if event is None:
            return None
        if not isinstance(event, MappingStartEvent):
            return self._value(event, 0)
        found: dict[str, Any] = {}
        while len(found) < len(_HEAD) and (event := self._next()).__class__ is not MappingEndEvent:
            name = event.value if isinstance(event, ScalarEvent) else ""
            if name in found:
                raise self._twice(name, self._at(event))
            if name in _HEAD:
                found[name] = self._value(self._next(), 1)
            else:
                self._skip(event)
                self._skip(self._next())
        return found

    def _skip(self, event: Untyped) -> None:
        depth = 0
        while True:
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if not depth:
                return
            event = self._next()

    def _roots(self) -> Iterator[Untyped]:
        """Yield the first event of every document's value."""
        self._next()
        while not isinstance(event := self._next(), StreamEndEvent):
            if event.version:
                raise InputError(
                    "Helm does not understand a %YAML directive",
                    at=self._at(event),
                    fix="delete the line: Helm reads YAML 1.1",
                )
            self._anchors = {}
            yield self._next()

    def _at(self, event: Untyped) -> Location:
        mark = event.start_mark
        return Location(self._file, mark.line + 1, mark.column + 1)

    def _value(self, event: Untyped, depth: int) -> Json:
        """Read one value; `event` is its first event."""
        self._count += 1
        if depth > MAX_DEPTH:
            raise InputError(f"nested deeper than {MAX_DEPTH} levels", at=self._at(event), fix="flatten the values")
        if self._count > MAX_NODES:
            raise self._too_many(event)
        if event.__class__ is AliasEvent:
            return self._alias(event)
        if event.anchor is None:
            return self._made(self._content(event, depth), event)
        # None marks an anchor that is still being read: an alias to it would contain itself.
        self._anchors[event.anchor] = None
        value = self._anchors[event.anchor] = self._made(self._content(event, depth), event)
        return value

    def _made(self, value: Json, event: Untyped) -> Json:
        """Convert a value for the result: here the value itself."""
        return value

    def _entry(self, value: Json, key: Untyped) -> Json:
        """Convert the value of a map entry for the result: here the value itself."""
        return value

    def _bare(self, value: Json) -> Json:
        """Return the plain value of a result of `_made`."""
        return value

    def _too_many(self, event: Untyped) -> InputError:
        return InputError(
            f"more than {MAX_NODES} values, including what aliases repeat",
            at=self._at(event),
            fix="write the values out instead of nesting aliases",
        )

    def _content(self, event: Untyped, depth: int) -> Json:
        if event.__class__ is ScalarEvent:
            return self._scalar(event)
        if event.tag not in (None, "!") and not self._tags:
            raise self._refused_tag(event)
        self._brackets += bool(event.flow_style)
        value = self._map(depth) if event.__class__ is MappingStartEvent else self._list(depth)
        self._brackets -= bool(event.flow_style)
        return value

    def _refused_tag(self, event: Untyped) -> InputError:
        # The tag is not shown: it may be an unquoted secret.
        return InputError("a tag is not allowed here", at=self._at(event), fix="write the plain value")

    def _scalar(self, event: Untyped) -> Scalar:
        text: str = event.value
        if self._slashes and event.style == '"' and _GO_REFUSES.search(self._source(event)):
            reason = "Helm does not know the escape \\/ in double quotes"
            raise InputError(reason, at=self._at(event), fix="write / without the backslash")
        if event.tag is not None:
            return self._tagged(event, text)
        if not event.implicit[0]:
            return text
        if self._brackets and "?" in text:
            reason = "Helm does not read a question mark between brackets"
            raise InputError(reason, at=self._at(event), fix="put the text in quotes")
        if scalars.is_not_finite(text):
            raise InputError(f"{text} is not a finite number", at=self._at(event), fix="write a number, or quote it")
        return scalars.resolve(text)

    def _tagged(self, event: Untyped, text: str) -> Scalar:
        """Read a tagged scalar as Kubernetes does: an unknown tag makes it a string."""
        if event.tag in (f"{_TAG}str", "!"):
            return text
        if not self._tags:
            raise self._refused_tag(event)
        if event.tag == f"{_TAG}binary":
            return base64.b64decode(text).decode("utf-8", "replace")
        return scalars.resolve(text) if event.tag in _RESOLVED else text

    def _source(self, event: Untyped) -> str:
        """Return a scalar as it is in the file."""
        return self._slashes[event.start_mark.index : event.end_mark.index]

    def _alias(self, event: Untyped) -> Json:
        value = self._anchors.get(event.anchor)
        if value is None:
            known = event.anchor in self._anchors
            reason = "contains itself" if known else "is not defined above this line"
            raise InputError(f"this alias {reason}", at=self._at(event), fix="write the value out")
        self._count += self._size(value)
        return value

    def _size(self, value: Json) -> int:
        """Count a value and everything below it, up to MAX_NODES."""
        count, queue = 0, [value]
        while queue and count < MAX_NODES:
            content = self._bare(queue.pop())
            if isinstance(content, dict):
                queue.extend(content.values())
            elif isinstance(content, list):
                queue.extend(content)
            count += 1
        return count

    def _list(self, depth: int) -> list[Any]:
        items = []
        while (event := self._next()).__class__ is not SequenceEndEvent:
            items.append(self._value(event, depth + 1))
        return items

    def _map(self, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        own: dict[str, Untyped] = {}
        while (event := self._next()).__class__ is not MappingEndEvent:
            if event.__class__ is ScalarEvent and event.value == "<<" and event.implicit[0] and event.tag is None:
                self._merge(entries, self._value(self._next(), depth + 1), event)
                continue
            key = self._key(event, depth)
            if key in own:
                raise self._twice(key, self._at(event), self._at(own[key]))
            own[key] = event
            entries[key] = self._entry(self._value(self._next(), depth + 1), event)
        return entries

    def _twice(self, key: str, at: Location, first: Location | None = None) -> InputError:
        place = f": the first is at {first}; Helm would silently use this one" if first else ""
        return InputError(f"the key {key!r} is given twice{place}", at=at, fix="delete one of the two")

    def _key(self, event: Untyped, depth: int) -> str:
        key = self._bare(self._value(event, depth + 1))
        if isinstance(key, str):
            return key
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int) and abs(key) < 2**53:
            return str(key)
        shape = "a map" if isinstance(key, dict) else "a list" if isinstance(key, list) else "null"
        shape = "a number that is not a plain integer" if isinstance(key, (int, float)) else shape
        raise InputError(f"a key must be text, this one is {shape}", at=self._at(event), fix="put the key in quotes")

    def _merge(self, entries: dict[str, Any], value: Json, key: Untyped) -> None:
        """Apply `<<` as Go's library does: it overrides earlier keys, and later keys override it."""
        content = self._bare(value)
        for source in reversed(content if isinstance(content, list) else [value]):
            merged = self._bare(source)
            if not isinstance(merged, dict):
                fix = "give it a map, an alias of one, or a list of them"
                raise InputError("<< merges maps only", at=self._at(key), fix=fix)
            entries.update(merged)


class _NodeBuilder(_Builder):
    """Build nodes with places instead of plain values."""

    def _made(self, value: Json, event: Untyped) -> Node:
        return Node(value, self._at(event), written=_written(event))

    def _entry(self, value: Node, key: Untyped) -> Node:
        return Node(value.value, value.at, self._at(key), _spelled(key), value.written)

    def _bare(self, value: Node) -> Json:
        return value.value


def _spelled(key: Untyped) -> str:
    """Return an unquoted key that Helm reads as a boolean, as in the file; empty for every other key."""
    plain = isinstance(key, ScalarEvent) and key.implicit[0]
    return key.value if plain and isinstance(scalars.WORDS.get(key.value), bool) else ""


def _written(event: Untyped) -> str:
    plain = isinstance(event, ScalarEvent) and event.implicit[0] and event.tag is None
    return event.value if plain and scalars.loses_digits(event.value) else ""


def _refusal(error: YAMLError, data: bytes, file: str) -> InputError:
    """Convert a parser error into an InputError with a place."""
    if data.startswith(b"#!") or file.endswith((".sh", ".py")):
        fix = "give the YAML that the program reads or prints"
        return InputError("this is not YAML, but a program", at=Location(file, 1, 1), fix=fix)
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        at = Location(file, mark.line + 1, mark.column + 1) if mark else Location(file)
        context = f" {error.context}" if error.context else ""
        # Helm's reader treats the colon as a part of the word; other readers refuse it.
        fix = "put the word in quotes" if error.problem == _COLON else "check quotes and indentation"
        return InputError(f"this is not YAML: {error.problem}{context}", at=at, fix=fix)
    if isinstance(error, ReaderError):
        at = Location(file, *place(data, error.position))
        return InputError(f"this is not YAML: {error.reason}", at=at, fix="delete the character, or escape it")
    return InputError(f"this is not YAML: {error}", at=Location(file))


def parse(data: bytes, file: str, *, tags: bool = False) -> list[Node]:
    """Read every document of a stream with places; `tags` allows YAML tags, as Kubernetes does.

    Raises InputError with the place of the first mistake.
    """
    return _read(lambda: list(_NodeBuilder(data, file, tags=tags).documents()), data, file)


def load_all(text: str, name: str) -> list[Any]:
    """Read every document of a manifest as plain values; `name` is its name in messages.

    Raises InputError with the place of the first mistake.
    """
    data = text.encode("utf-8")
    return _read(lambda: list(_Builder(data, name, tags=True).documents()), data, name)


def load_head(text: str, name: str) -> Json:
    """Read apiVersion, kind and metadata of the first document of a manifest, and stop there.

    A document that is not a map is read whole. Raises InputError for a mistake in the part that is read.
    """
    data = text.encode("utf-8")
    return _read(lambda: _Builder(data, name, tags=True).head(), data, name)


def _read(build: Callable[[], T], data: bytes, file: str) -> T:
    check_text(data, file)
    try:
        return build()
    except YAMLError as error:
        raise _refusal(error, data, file) from error


def events(text: str, name: str) -> Iterator[Untyped]:
    """Yield the parser's events of one document; offsets count characters.

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
    """Read one values file as Helm reads it; the root node is a map, empty for an empty file.

    Raises UnreadableError (missing, a directory, no permission) and InputError (any other error).
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
    """Read a manifest: one map for each document, without empty ones; `name` is its name in messages."""
    values = [value for value in load_all(text, name) if value is not None]
    if all(isinstance(value, dict) for value in values):
        return values
    other = next(
        node for node in parse(text.encode("utf-8"), name, tags=True) if not isinstance(node.value, dict | None)
    )
    raise InputError("expected a Kubernetes object", at=other.at)
