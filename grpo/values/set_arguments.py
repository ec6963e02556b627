"""Read --set, --set-string, --set-json and --set-file as Helm does, with the location of each value.

Helm's package strvals defines the syntax; tests compare the two. The arguments of one flag are the lines of a text
named after the flag, so `<--set>:2:1` is the beginning of the second --set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from postrender import json_text, textfile
from postrender.errors import InputError, Location, UnreadableError
from postrender.types import Json, Path
from postrender.values.merge import Values, overlay_nodes
from postrender.yaml import scalars
from postrender.yaml.reader import Node

SET, STRING, JSON, FILE = "--set", "--set-string", "--set-json", "--set-file"
# Helm applies all arguments of a flag before those of the next one, whatever their order on the command line.
FLAGS: Final = (JSON, SET, STRING, FILE)
_MAX_POSITION: Final = 65_536
_MAX_DEPTH: Final = 30
_INT64: Final = 2**63
# Python refuses to read a number of more than 4300 digits: these have as many as count.
_POSITION: Final = re.compile("0*([0-9]{1,5})")
_INTEGER: Final = re.compile("([-+]?)0*([0-9]{1,19})")
_WORDS: Final = {"true": True, "false": False, "null": None}

# A flag and what follows it.
Argument = tuple[str, str]


def is_place(file: str) -> bool:
    """Return whether a location is in an argument rather than a file."""
    return file.startswith("<--set")


def apply(merged: Values, arguments: Sequence[Argument]) -> Values:
    """Return the values with the arguments applied in Helm's order; raise InputError if Helm would reject one."""
    root, files = merged.root, [*merged.files]
    for flag in FLAGS:
        texts = [text for each, text in arguments if each == flag]
        if not texts:
            continue
        file = f"<{flag}>"
        files.append(file)
        # Reports show the line of a finding.
        textfile.keep(file, "".join(f"{' '.join(text.splitlines())}\n" for text in texts).encode("utf-8"))
        for line, text in enumerate(texts, 1):
            root = _applied(root, flag, text, Location(file, line, 1))
    return Values(root, files, merged.documents)


def _applied(root: Node, flag: str, text: str, at: Location) -> Node:
    if flag == JSON and text.lstrip().startswith("{"):
        return overlay_nodes(root, _node(_decoded(text, at)[0], at))
    for path, node in _Parser(text, flag, at).assignments():
        root = _with(root, path, node)
    return root


def _with(under: Node, path: Path, node: Node, done: Path = ()) -> Node:
    """Return a tree with a node at a path; like Helm, extend lists and create maps, but turn no value into a map."""
    if not path:
        return node
    part, *rest = path
    inside = under.value
    if isinstance(part, int):
        items = [*inside] if isinstance(inside, list) else []
        # Helm takes null inside a list, but not in a map, as an empty list.
        if not isinstance(inside, list) and (inside is not None or isinstance(done[-1], str)):
            raise _conflict(done, "no list", node)
        items += [Node(None, node.at) for _ in range(part + 1 - len(items))]
        below = items[part]
        if rest and isinstance(rest[0], str) and not isinstance(below.value, dict):
            below = Node({}, node.at)
        items[part] = _with(below, tuple(rest), node, (*done, part))
        return Node(items, node.at, under.key_at)
    if not isinstance(inside, dict):
        raise _conflict(done, "no map", node)
    empty = Node([] if rest and isinstance(rest[0], int) else {}, node.at, node.at)
    return Node(
        {**inside, part: _with(inside.get(part, empty), tuple(rest), node, (*done, part))}, under.at, under.key_at
    )


def _conflict(path: Path, what: str, node: Node) -> InputError:
    name = ".".join(map(str, path))
    return InputError(f"{name} is {what}, so Helm cannot set a part of it", at=node.at, fix=f"set {name} as a whole")


def _node(value: Json, at: Location) -> Node:
    """Return a JSON value as a node tree, all of it at one location."""
    if isinstance(value, dict):
        return Node({str(key): _node(item, at) for key, item in value.items()}, at)
    return Node([_node(item, at) for item in value], at) if isinstance(value, list) else Node(value, at)


def _no_constant(name: str) -> Json:
    """Reject NaN and the infinities, which Python's reader accepts but Helm's does not."""
    raise ValueError(f"{name} is no JSON number")


def _number(text: str) -> Json:
    """Read a number as the file reader does; reject a number outside the range of a 64-bit float."""
    found = scalars.number(text)
    if found is None:
        raise ValueError("a number is too large")
    return found


def _decoded(text: str, at: Location) -> tuple[Json, int]:
    """Decode the JSON value at the start of a text; return the value and its end."""
    try:
        decoder = json.JSONDecoder(parse_constant=_no_constant, parse_int=_number, parse_float=_number)
        return json_text.decode(decoder, text, whole=False)
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}", at=at, fix="check quotes and brackets") from error


def _typed(text: str) -> Json:
    """Convert a text as Helm does: true, false, null, integers; everything else, even 1.5 and 007, remains a text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    found = _INTEGER.fullmatch(text)
    number = int(f"{found[1]}{found[2]}") if found and (text == "0" or text[0] != "0") else _INT64
    return number if -_INT64 <= number < _INT64 else text


def _content(path: str) -> Json:
    try:
        return textfile.read_bytes(path).decode("utf-8", "replace")
    except UnreadableError as error:
        raise UnreadableError(error.message, at=error.at, fix=f"check the path after {FILE}") from error


class _Parser:
    """Parse one argument, such as `a.b=1,c[0]={x,y}`."""

    def __init__(self, text: str, flag: str, at: Location) -> None:
        self._text = text
        self._is_json = flag == JSON
        converters: dict[str, Callable[[str], Json]] = {FILE: _content, STRING: str}
        self._converted = converters.get(flag, _typed)
        self._start = at
        self._position = 0

    def assignments(self) -> Iterator[tuple[Path, Node]]:
        """Yield each path with its value, located at the path's first character."""
        while self._position < len(self._text):
            at = self._start._replace(col=self._position + 1)
            path = self._path(at)
            node = self._json(at) if self._is_json else self._value(at)
            yield path, node

    def _path(self, at: Location) -> Path:
        path: list[str | int] = []
        stops = "=[,."
        while True:
            name, stop = self._until(stops)
            if stops == "=[,.":
                path.append(name)
            elif name:
                raise self._wrong(f"expected =, . or [ after a list position, found {name}", at)
            # Helm ignores some arguments that end too early or have an empty name, and sets nothing.
            if stop in ("", ",") or "" in path:
                raise self._wrong(
                    f"{'.'.join(map(str, path)) or 'the argument'} has no {'value' if all(path) else 'name'}", at
                )
            if stop == "=":
                return tuple(path)
            if stop == "[":
                path.append(self._list_position(at))
            stops = "=[." if stop == "[" else "=[,."
            if sum(isinstance(part, str) for part in path) > _MAX_DEPTH:
                raise self._wrong(f"a key has more than {_MAX_DEPTH} levels", at)

    def _list_position(self, at: Location) -> int:
        digits, stop = self._until("]")
        found = _POSITION.fullmatch(digits)
        if not stop or not found or int(found[1]) > _MAX_POSITION:
            raise self._wrong(f"{digits} is no list position from 0 to {_MAX_POSITION}", at)
        return int(found[1])

    def _value(self, at: Location) -> Node:
        if not self._skip("{"):
            return Node(self._converted(self._until(",")[0]), at)
        items, stop = [], ","
        while stop == ",":
            text, stop = self._until(",}")
            items.append(Node(self._converted(text), at))
        if not stop:
            raise self._wrong("a list must end with }", at)
        self._skip(",")
        return Node(items, at)

    def _json(self, at: Location) -> Node:
        rest = self._text[self._position :].lstrip()
        if rest[:1] in ("", ","):
            self._position = len(self._text) - len(rest) + len(rest[:1])
            return Node(None, at)
        value, end = _decoded(rest, at)
        rest = rest[end:].lstrip()
        self._position = len(self._text) - len(rest) + len(rest[:1])
        if rest[:1] not in ("", ","):
            raise self._wrong(f"expected a comma after the JSON value, found {rest[0]}", at)
        return _node(value, at)

    def _skip(self, character: str) -> bool:
        found = self._text[self._position : self._position + 1] == character
        self._position += found
        return found

    def _until(self, stops: str) -> tuple[str, str]:
        """Read up to one of these characters; return the text and that character, which is empty at the end.

        A character after a backslash is never a stop.
        """
        found: list[str] = []
        while self._position < len(self._text):
            character = self._text[self._position]
            self._position += 1
            if character in stops:
                return "".join(found), character
            if character == "\\":
                character = self._text[self._position : self._position + 1]
                self._position += 1
            found.append(character)
        return "".join(found), ""

    def _wrong(self, message: str, at: Location) -> InputError:
        return InputError(message, at=at, fix="write it as for helm: a.b=1 or a[0].b=1, with a comma between two")
