"""Read YAML as Helm does, with the place of every key and value. No other module knows PyYAML."""

# ruff: noqa: TID251 - this is the one module that may import yaml

from __future__ import annotations

import os
import re

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import AliasEvent, MappingStartEvent, ScalarEvent, StreamEndEvent
from yaml.reader import ReaderError

from postrender import scalars
from postrender.errors import InputError, Location
from postrender.textio import check_text, place, read_bytes
from postrender.words import WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from postrender.plain import Foreign, Plain
    from postrender.scalars import Scalar

    Value = dict[str, "Node"] | list["Node"] | Scalar

MAX_DEPTH = 100
MAX_NODES = 1_000_000
_TAG = "tag:yaml.org,2002:"
# What the parser says of `[fd00::]`.
_COLON = "found unexpected ':'"
_GO_REFUSES = re.compile(r"(?<!\\)(?:\\\\)*\\/")
# Helm 4 cuts a file at every line that starts so, wherever the line stands.
_CUT = re.compile(rb"^---(?![ \t]*(?:#.*)?\r?$)", re.MULTILINE)


class Node:
    """Hold one value: a map of nodes, a list of nodes, or a scalar; with the places of the value and of its key.

    `spelled` is the key as the file has it where Helm reads the unquoted key as a boolean (`n` becomes "false"),
    `written` the value as the file has it where it is an integer of more digits than Helm keeps.
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

    def plain(self) -> Plain:
        """Return the value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class _Builder:
    """Build nodes from parser events, so that nesting is counted here and not on the C stack."""

    def __init__(self, data: bytes, file: str) -> None:
        self._parser = CParser(data)
        self._slashes = data.decode("utf-8") if b"\\/" in data else ""
        self._file = file
        self._anchors: dict[str, Node | None] = {}
        self._count = 0
        self._brackets = 0

    def documents(self) -> Iterator[Node]:
        """Yield the root node of every document."""
        self._next()
        while not isinstance(event := self._next(), StreamEndEvent):
            if event.version:
                raise InputError(
                    "a directive %YAML is not understood by Helm",
                    at=self._at(event),
                    fix="delete the line: Helm reads YAML 1.1",
                )
            self._anchors = {}
            yield self._node(self._next(), 0)
            self._next()

    def _next(self) -> Foreign:
        return self._parser.get_event()

    def _at(self, event: Foreign) -> Location:
        mark = event.start_mark
        return Location(self._file, mark.line + 1, mark.column + 1)

    def _node(self, event: Foreign, depth: int) -> Node:
        self._limit(event, depth)
        if isinstance(event, AliasEvent):
            return self._alias(event)
        anchor = event.anchor
        if anchor is not None:
            # None marks an anchor whose value is still being read: an alias to it would contain itself.
            self._anchors[anchor] = None
        node = Node(self._value(event, depth), self._at(event), written=_written(event))
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _limit(self, event: Foreign, depth: int) -> None:
        self._count += 1
        if depth > MAX_DEPTH:
            raise InputError(f"nested deeper than {MAX_DEPTH} levels", at=self._at(event), fix="flatten the values")
        if self._count > MAX_NODES:
            raise InputError(
                f"more than {MAX_NODES} values, counting what aliases repeat",
                at=self._at(event),
                fix="write the values out instead of nesting aliases",
            )

    def _value(self, event: Foreign, depth: int) -> Value:
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if event.tag not in (None, "!"):
            raise self._tagged(event)
        self._brackets += bool(event.flow_style)
        value = self._map(depth) if isinstance(event, MappingStartEvent) else self._list(depth)
        self._brackets -= bool(event.flow_style)
        return value

    def _tagged(self, event: Foreign) -> InputError:
        # What it is called may be a value that lacks its quotes.
        return InputError("a tag is not allowed here", at=self._at(event), fix="write the plain value")

    def _scalar(self, event: Foreign) -> Scalar:
        text: str = event.value
        if event.style == '"' and _GO_REFUSES.search(self._source(event)):
            reason = "Helm does not know the escape \\/ in double quotes"
            raise InputError(reason, at=self._at(event), fix="write / without the backslash")
        if event.tag == f"{_TAG}str" or event.tag == "!" or (event.tag is None and not event.implicit[0]):
            return text
        if event.tag is not None:
            raise self._tagged(event)
        if self._brackets and "?" in text:
            reason = "Helm does not read a question mark between brackets"
            raise InputError(reason, at=self._at(event), fix="put the text in quotes")
        if scalars.is_not_finite(text):
            raise InputError(f"{text} is no finite number", at=self._at(event), fix="write a number, or quote it")
        return scalars.resolve(text)

    def _source(self, event: Foreign) -> str:
        """Return a scalar as the file has it; only where the file has a backslash before a slash at all."""
        if not self._slashes:
            return ""
        return self._slashes[event.start_mark.index : event.end_mark.index]

    def _alias(self, event: Foreign) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            known = event.anchor in self._anchors
            reason = "contains itself" if known else "is not defined above this line"
            raise InputError(f"this alias {reason}", at=self._at(event), fix="write the value out")
        self._count += _size(node, MAX_NODES)
        return node

    def _list(self, depth: int) -> list[Node]:
        items = []
        while (event := self._next()).__class__.__name__ != "SequenceEndEvent":
            items.append(self._node(event, depth + 1))
        return items

    def _map(self, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        seen: dict[str, Location] = {}
        while (event := self._next()).__class__.__name__ != "MappingEndEvent":
            at = self._at(event)
            if isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0] and event.tag is None:
                self._merge(entries, self._node(self._next(), depth + 1), at)
                continue
            key = self._key(event, depth)
            if key in seen:
                raise InputError(
                    f"the key {key!r} stands twice: the first is at {seen[key]}; Helm would silently use this one",
                    at=at,
                    fix="delete one of the two",
                )
            seen[key] = at
            value = self._node(self._next(), depth + 1)
            entries[key] = Node(value.value, value.at, at, _spelled(event), value.written)
        return entries

    def _key(self, event: Foreign, depth: int) -> str:
        node = self._node(event, depth + 1)
        key = node.value
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, str):
            return key
        if isinstance(key, int) and abs(key) < 2**53:
            return str(key)
        shape = "a map" if isinstance(key, dict) else "a list" if isinstance(key, list) else "null"
        shape = "a number that is no plain integer" if isinstance(key, (int, float)) else shape
        raise InputError(f"a key must be text, this one is {shape}", at=node.at, fix="put the key in quotes")

    def _merge(self, entries: dict[str, Node], node: Node, at: Location) -> None:
        """Apply `<<`: what it brings replaces earlier keys and gives way to later ones; Go's library does so."""
        sources = node.value if isinstance(node.value, list) else [node]
        for source in reversed(sources):
            if not isinstance(source.value, dict):
                raise InputError("<< merges maps only", at=at, fix="give it a map, an alias of one, or a list of them")
            entries.update(source.value)


def _spelled(key: Foreign) -> str:
    """Return an unquoted key that Helm reads as a boolean, as the file has it; empty for every other key."""
    plain = isinstance(key, ScalarEvent) and key.implicit[0]
    return key.value if plain and isinstance(WORDS.get(key.value), bool) else ""


def _written(event: Foreign) -> str:
    plain = isinstance(event, ScalarEvent) and event.implicit[0] and event.tag is None
    return event.value if plain and scalars.loses_digits(event.value) else ""


def _size(node: Node, limit: int) -> int:
    """Count a node and all below it, and stop counting at the limit."""
    count, queue = 0, [node]
    while queue and count < limit:
        queue.extend(queue.pop().children())
        count += 1
    return count


def _refusal(error: YAMLError, data: bytes, file: str) -> InputError:
    """Turn a parser's error into one sentence with a place."""
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        at = Location(file, mark.line + 1, mark.column + 1) if mark else Location(file)
        context = f" {error.context}" if error.context else ""
        # Helm's reader takes the colon for a part of the word, others refuse it.
        fix = "put the word in quotes" if error.problem == _COLON else "check quotes and indentation"
        return InputError(f"this is not YAML: {error.problem}{context}", at=at, fix=fix)
    if isinstance(error, ReaderError):
        at = Location(file, *place(data, error.position))
        return InputError(f"this is not YAML: {error.reason}", at=at, fix="delete the character, or escape it")
    return InputError(f"this is not YAML: {error}", at=Location(file))


def parse(data: bytes, file: str) -> list[Node]:
    """Read every document of a stream; raise InputError with the place of the first thing that is wrong."""
    check_text(data, file)
    try:
        return list(_Builder(data, file).documents())
    except YAMLError as error:
        raise _refusal(error, data, file) from error


def events(text: str, name: str) -> Iterator[Foreign]:
    """Yield the parser's events without the marks of stream and documents; offsets count characters.

    Raises InputError where the text is no YAML.
    """
    parser = CParser(text)
    try:
        while not isinstance(event := parser.get_event(), StreamEndEvent):
            if type(event).__name__ not in ("StreamStartEvent", "DocumentStartEvent", "DocumentEndEvent"):
                yield event
    except YAMLError as error:
        raise _refusal(error, text.encode("utf-8"), name) from error


def load_values(path: str | os.PathLike[str]) -> Node:
    """Read one values file as Helm reads it after `-f`; the root node is a map, empty for an empty file.

    Raises UnreadableError (missing, a directory, no permission) and InputError (everything else that is wrong).
    """
    file = os.fspath(path)
    return values_from_bytes(read_bytes(file), file)


def values_from_bytes(data: bytes, file: str) -> Node:
    """Read a values document that is in memory; `file` is the name for messages."""
    documents = parse(data, file)
    second = next((node for node in documents[1:] if node.value is not None), None)
    if second:
        raise InputError(
            "a second YAML document starts here: Helm 3 would ignore it and Helm 4 would merge it",
            at=second.at,
            fix="delete the --- line, or put the second part into a file of its own",
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
    """Read a manifest: one mapping a document, empty documents left out; `name` stands for the file in errors."""
    objects = []
    for node in parse(text.encode("utf-8"), name):
        if isinstance(node.value, dict):
            objects.append(node.plain())
        elif node.value is not None:
            raise InputError("expected a Kubernetes object", at=node.at)
    return objects
