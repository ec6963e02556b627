"""Build values from the YAML parser's events, and reject what Helm would read differently."""

# ruff: noqa: TID251 - this module and reader.py may import yaml

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

from yaml._yaml import CParser
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

from postrender.errors import InputError, Location
from postrender.json_text import MAX_DEPTH
from postrender.types import Json, Untyped
from postrender.yaml import scalars
from postrender.yaml.scalars import Scalar

MAX_NODES = 1_000_000
# Of what aliases repeat, in letters; each value counts as so many more. Helm writes it all out, several times.
MAX_REPEATED = 2_000_000
_VALUE = 16
# The keys that identify an object.
_HEAD = ("apiVersion", "kind", "metadata")
_TAG = "tag:yaml.org,2002:"
_RESOLVED = frozenset(f"{_TAG}{kind}" for kind in ("int", "float", "bool", "null"))
_GO_REFUSES = re.compile(r"(?<!\\)(?:\\\\)*\\/")


def too_deep(at: Location) -> InputError:
    """Return the error for a text nested deeper than MAX_DEPTH."""
    return InputError(f"nested deeper than {MAX_DEPTH} levels", at=at, fix="flatten the values")


class Builder:
    """Build plain values from parser events.

    The parser's own composer recurses on the C stack, so this builder limits the nesting itself.
    """

    def __init__(self, data: bytes, file: str, *, tags: bool) -> None:
        self._tags = tags
        self._parser = CParser(data)
        self._next: Callable[[], Untyped] = self._parser.get_event
        self._slashes = data.decode("utf-8") if b"\\/" in data else ""
        self._file = file
        self._anchors: dict[str, Any] = {}
        self._count = 0
        self._repeated = 0
        self._brackets = 0

    def documents(self) -> Iterator[Any]:
        """Yield the value of every document."""
        for event in self._roots():
            yield self._value(event, 0)
            self._next()

    def head(self) -> Json:
        """Return apiVersion, kind and metadata of the first document, and stop reading there.

        A document that is not a map is returned in full.
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
            raise too_deep(self._at(event))
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
        """Convert a value for the result; here it is returned unchanged."""
        return value

    def _entry(self, value: Json, key: Untyped) -> Json:
        """Convert a map entry's value for the result; here it is returned unchanged."""
        return value

    def _bare(self, value: Json) -> Json:
        """Return the plain value of a `_made` result."""
        return value

    def _too_many(self, event: Untyped) -> InputError:
        return InputError(
            f"more than {MAX_NODES} values",
            at=self._at(event),
            fix="split the text",
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
        """Return a scalar as written in the file."""
        return self._slashes[event.start_mark.index : event.end_mark.index]

    def _alias(self, event: Untyped) -> Json:
        value = self._anchors.get(event.anchor)
        if value is None:
            known = event.anchor in self._anchors
            reason = "contains itself" if known else "is not defined above this line"
            raise InputError(f"this alias {reason}", at=self._at(event), fix="write the value out")
        self._repeated += self._size(value)
        if self._repeated > MAX_REPEATED:
            raise InputError(
                f"aliases repeat more than {MAX_REPEATED // 1_000_000} MB of values up to this one",
                at=self._at(event),
                fix="write the values out, and do not nest aliases",
            )
        return value

    def _size(self, value: Json) -> int:
        """Return the size that an alias repeats: a value and everything below it; counting stops above MAX_REPEATED."""
        size, queue = 0, [value]
        while queue and size <= MAX_REPEATED:
            content = self._bare(queue.pop())
            size += _VALUE
            if isinstance(content, dict):
                queue.extend(content.values())
                size += sum(map(len, content))
            elif isinstance(content, list):
                queue.extend(content)
            elif isinstance(content, str):
                size += len(content)
        return size

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
        """Apply `<<` as Go's library does: its entries override earlier keys, and later keys override them."""
        content = self._bare(value)
        for source in reversed(content if isinstance(content, list) else [value]):
            merged = self._bare(source)
            if not isinstance(merged, dict):
                fix = "give it a map, an alias of one, or a list of them"
                raise InputError("<< merges maps only", at=self._at(key), fix=fix)
            entries.update(merged)
