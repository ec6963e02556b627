"""Read plain YAML with py-yaml12, and prove that what was read is right. No other module knows this library.

The library reads YAML 1.2, keeps the last of two equal keys, and says no word about either. So what it gives is taken
only where it must be what Helm and Kubernetes read: no word and no number that YAML 1.1 reads differently, no alias,
and exactly as many colons, tabs and open brackets in the text as the keys and the texts of what was read have, as a key
that stands twice makes one more. Whatever else there is, the answer is None and the caller reads with `yamlio`, which
knows all rules and the places.
"""

# ruff: noqa: TID251 - this is the one module that may import yaml12

from __future__ import annotations

from postrender import yamltext
from postrender.words import DISPUTED
from postrender.yamltext import MERGE, SIGNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

    from postrender.plain import Plain

    # What may be something else to other readers: words, numbers, and keys without a value.
    Odd = set[str | int | tuple[str | int]]

_LONG: Final = 1000
# The library does not survive lists nested some thousand levels deep, and reads the first of several documents only.
# It ends a text at the first NUL, and takes other characters that no text may hold.
_CONTROL = bytes({*range(32), 127} - {9, 10, 13})
# Helm writes this above what it has rendered.
_SOURCE: Final = "# Source: "
# The reader may stop in front of what it does not understand: then it does not find this one key more.
_END: Final = "end-of-document:\n"
# No word begins so, but the fast reader takes some between brackets.
_NO_BEGINNING: Final = frozenset(":|>%@`")
_LONGEST: Final = 3
# Keys with one of these are looked at each time.
_INSIDE: Final = frozenset(" :[{")
_SUSPECT: Final = SIGNS | _NO_BEGINNING | frozenset(" \n\t")
_BASES: Final = frozenset("xXbBoO")
# Helm and Kubernetes keep numbers as 64-bit floats.
_EXACT: Final = 2**53
_MAX_DEPTH: Final = 60
# Of more different numbers each is not looked for.
_MANY: Final = 200


# Keys that need no second look; most keys of a stream stand in it many times.
_plain_keys: set[str] = set()


class _Seen:
    """Hold what is to be looked at in a text: what YAML 1.1 reads differently, and texts with certain signs."""

    __slots__ = ("bracketed", "hashed", "odd")

    def __init__(self) -> None:
        # Words without quotes, and numbers, which may have a zero in front.
        self.odd: Odd = set()
        self.bracketed: list[str] = []
        # With a colon too: a line that looks like a comment may be one of these.
        self.hashed: list[str] = []


class _OddError(Exception):
    """The text is not plain."""


def parse(text: str) -> Plain:
    """Read any one document as YAML 1.2 does; raise ValueError where the library cannot, or is not to be trusted.

    Words that YAML 1.1 reads differently stay text, and of two equal keys the last one counts.
    """
    if "\n..." in text or "\n%" in text or text.startswith(("%", "?", "...", "\ufeff")) or _is_deep(text):
        raise ValueError("not for this reader")
    data = text.encode("utf-8")
    if len(data.translate(None, _CONTROL)) != len(data):
        raise ValueError("a control character")
    try:
        from yaml12 import parse_yaml
    except ImportError as error:
        raise ValueError("the library is missing") from error
    return parse_yaml(text)


def _is_deep(text: str) -> bool:
    """Say whether a line is indented by hundreds of levels, or may nest as many lists or keys in each other."""
    # Most texts have no line in which so much could stand, and most of the others have not so much in all their lines.
    if not yamltext.has_line_of(text, _LONG // 2):
        return False
    return " " * _LONG in text or (_marks(text) > _LONG // 4 and max(map(_marks, text.split("\n"))) > _LONG // 4)


def _marks(text: str) -> int:
    return text.count("- ") + text.count("? ")


def read(text: str) -> dict[str, Any] | None:
    """Return the object of one document, or None where another reader is needed."""
    if yamltext.is_odd(text) or not text.endswith("\n"):
        return None
    try:
        tree = parse(text + _END)
        if not isinstance(tree, dict) or tree.pop(_END[:-2], "") is not None or not tree:
            return None
        seen = _Seen()
        colons = _count(tree, seen, 0)
        if len(seen.odd) > _MANY or yamltext.has_flow_over_lines(text, seen.bracketed):
            return None
        negative = any(type(each) is int and each < 0 for each in seen.odd)
        if yamltext.has_second_sign(text, negative=negative) or _has_other_tabs(text, tree):
            return None
        if _has_other_colons(text, colons, seen):
            return None
    except (ValueError, _OddError):
        return None
    return None if any(_is_different(each, text) for each in seen.odd) else tree


def _has_other_tabs(text: str, tree: dict[str, Any]) -> bool:
    """Say whether the text has tabs that are in no text of the tree.

    A tab that is written as one would make good for one that stands where none may.
    """
    return "\t" in text and ("\\t" in text or text.count("\t") != sum(each.count("\t") for each in _texts(tree)))


def _has_other_colons(text: str, colons: int, seen: _Seen) -> bool:
    """Say whether the text has colons that are in no text of the tree, and in no comment."""
    excess = text.count(":") - colons
    if excess == text.startswith((_SOURCE, f"---\n{_SOURCE}")):
        return False
    return bool(seen.hashed) or excess != yamltext.colons_in_comments(text)


def _texts(value: Plain) -> Iterator[str]:
    """Yield the keys and the texts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _is_different(found: str | int | tuple[str | int], text: str) -> bool:
    """Say whether what was found may be something else to other readers."""
    if isinstance(found, int):
        return yamltext.may_be_octal(found, text)
    if isinstance(found, tuple):
        return yamltext.may_lack_colon(str(found[0]), text)
    return yamltext.may_be_bare(found, text)


def _count(tree: Any, seen: _Seen, depth: int) -> int:  # noqa: ANN401 (a map or a list)
    """Count the keys and the colons in texts; collect what is to be looked at."""
    if depth > _MAX_DEPTH:
        raise _OddError
    keys = tree if type(tree) is dict else ()
    found = len(keys)
    for at, value in tree.items() if keys else enumerate(tree):
        kind = type(value)
        if kind is str:
            if ":" in value:
                found += value.count(":")
                if "#" in value:
                    seen.hashed.append(value)
            if "{" in value or "[" in value:
                seen.bracketed.append(value)
            if len(value) <= _LONGEST or value[0] in _SUSPECT or "?" in value:
                _collect(value, seen.odd)
        elif kind is dict or kind is list:
            found += _count(value, seen, depth + 1)
        elif kind is float:
            tree[at] = _float(value)
        elif kind is not bool and value is not None:
            _number(value, seen.odd)
        elif value is None and keys:
            seen.odd.add((at,))
    for key in keys:
        if key not in _plain_keys:
            found += _key(key, seen)
    return found


def _key(key: Plain, seen: _Seen) -> int:
    """Return the colons in a key; raise _OddError for one that is no text."""
    if type(key) is not str:
        raise _OddError
    if "{" in key or "[" in key:
        seen.bracketed.append(key)
    if "#" in key and ":" in key:
        seen.hashed.append(key)
    if " " in key or key == MERGE:
        # Between brackets a key may have been put together from two lines, which Helm refuses.
        seen.odd.add(key)
    if len(key) <= _LONGEST or key[0] in _SUSPECT or "?" in key:
        _collect(key, seen.odd)
    elif _INSIDE.isdisjoint(key):
        _plain_keys.add(key)
    return key.count(":")


def _collect(value: str, odd: Odd) -> None:
    """Take what may be something else without quotes; raise _OddError for what the readers may end differently."""
    if value in DISPUTED:
        odd.add(value)
    elif value[:1] in _NO_BEGINNING or ("?" in value and "\n" not in value):
        # Between brackets Helm does not read it.
        odd.add(value)
    elif value.isspace() and "\n" in value:
        # How many empty lines does a block text have that has nothing else?
        raise _OddError
    elif value[:1] in SIGNS and value and ("_" in value or not _BASES.isdisjoint(value[1:3])):
        from postrender import scalars

        if scalars.number(value) is not None:
            odd.add(value)


def _float(value: float) -> float:
    """Return a number as Helm keeps it: 1.0 is 1. Raise _OddError where the readers may keep it differently."""
    if not -_EXACT < value < _EXACT:
        raise _OddError
    return int(value) if value.is_integer() else value


def _number(value: Plain, odd: Odd) -> None:
    """Raise _OddError for a number that the readers may keep differently."""
    if type(value) is not int or not -_EXACT < value < _EXACT:
        raise _OddError
    odd.add(value)
