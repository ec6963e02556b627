"""Locate a document's values in its text, so that they can be edited in place."""

from __future__ import annotations

import copy
from typing import Literal

from postrender.errors import InputError
from postrender.json_text import MAX_DEPTH
from postrender.types import Untyped
from postrender.yaml import reader, scalars

Kind = Literal["map", "list", "scalar"]


class Span:
    """The place of one value: offsets in characters; `end` excludes a comment and the end of the line.

    A map has its values in `keys` and its keys' offsets in `starts`; a list has `items`. In block style `col` is
    the column of the keys or dashes and `first` the offset of the first one. `flow` is true for a value in
    braces or brackets. `alias` is the offset of the alias through which the value was reached, or -1.
    """

    def __init__(self, kind: Kind, start: int, end: int, *, flow: bool = False) -> None:
        self.kind: Kind = kind
        self.start = start
        self.end = end
        self.flow = flow
        self.col = 0
        self.first = start
        self.alias = -1
        self.keys: dict[str, Span] = {}
        self.starts: dict[str, int] = {}
        self.items: list[Span] = []


def scan(text: str, name: str) -> Span:
    """Return the span of a document's only value; `name` is its name in messages.

    Raises InputError if the text is not YAML or nests too deeply.
    """
    return _Scanner(text, name).span(0)


class _Scanner:
    """Turn parser events into spans; an alias has its anchor's span."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._events = reader.events(text, name)
        self._anchors: dict[str, Span] = {}

    def span(self, depth: int) -> Span:
        return self._span(next(self._events), depth)

    def _span(self, event: Untyped, depth: int) -> Span:
        kind = type(event).__name__
        if depth > MAX_DEPTH:
            raise InputError(f"nested deeper than {MAX_DEPTH} levels", fix="flatten the object")
        if kind == "AliasEvent":
            return self._alias(event)
        start, end = event.start_mark.index, event.end_mark.index
        if kind == "ScalarEvent":
            # The parser includes the empty lines below a block scalar; leave them out.
            span = Span("scalar", start, start + len(self._text[start:end].rstrip(" \t\r\n")))
        else:
            span = Span("map" if kind == "MappingStartEvent" else "list", start, end, flow=bool(event.flow_style))
            (self._map if span.kind == "map" else self._list)(span, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = span
        return span

    def _alias(self, event: Untyped) -> Span:
        span = self._anchors.get(event.anchor)
        if span is None:
            raise InputError(f"the alias *{event.anchor} contains itself, or nothing above it has that name")
        again = copy.copy(span)
        again.alias = event.start_mark.index
        return again

    def _map(self, span: Span, depth: int) -> None:
        while (event := next(self._events)).__class__.__name__ != "MappingEndEvent":
            if not span.keys:
                span.first, span.col = event.start_mark.index, event.start_mark.column
            is_text = event.__class__.__name__ == "ScalarEvent"
            if not is_text:
                self._span(event, depth + 1)
            # No Kubernetes object has a map or a list as a key: such a key only needs a unique name here.
            key = _key(event) if is_text else f"\0{event.start_mark.index}"
            span.starts[key] = event.start_mark.index
            span.keys[key] = value = self.span(depth + 1)
            if value.start > span.start:
                span.end = value.end
        if span.flow:
            span.end = event.end_mark.index

    def _list(self, span: Span, depth: int) -> None:
        while (event := next(self._events)).__class__.__name__ != "SequenceEndEvent":
            item = self._span(event, depth + 1)
            if not span.items:
                # An anchor is before the first dash, on the line of the key.
                begin = event.start_mark.index
                span.first = span.start if self._text[span.start] == "-" else self._text.rfind("-", 0, begin)
                span.col = span.first - self._text.rfind("\n", 0, span.first) - 1
            span.items.append(item)
            if item.start > span.start:
                span.end = item.end
        if span.flow:
            span.end = event.end_mark.index


def _key(event: Untyped) -> str:
    """Return a key as Kubernetes reads it: an unquoted n is the text false."""
    text: str = event.value
    value = scalars.resolve(text) if event.implicit[0] else text
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else text
