"""Read a plain manifest in a fraction of the time, or not at all.

The fast reader reads YAML 1.2, keeps the last of two equal keys, and says no word about either. So what it gives is
taken only where it must be what Kubernetes reads: no word and no number that YAML 1.1 reads differently, no alias, and
exactly as many colons in the text as its keys and its texts have, as a key that stands twice makes one more. Whatever
else there is, the answer is None and the caller reads with `yamlio`, which knows all rules and the places.
"""

from __future__ import annotations

from postrender import yamlfast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

    from postrender.plain import Plain

# Helm writes this above what it has rendered.
_SOURCE: Final = "# Source: "
# A second document, aliases, tags and merges; in a text they only cost time.
_INDICATORS: Final = ("\n---", ": *", "- *", ", *", "[*", "{*", ",*", ": !", "- !", "<<", "? ")
# An escape may make a colon with a space behind it out of what is none in the file.
_ESCAPES: Final = (":\\", "\\x", "\\u", "\\U", "\\/")
_OTHER_LINE_ENDS: Final = ("\r", "\x85", "\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff")
# Booleans to YAML 1.1, text to YAML 1.2.
_DISPUTED: Final = frozenset(
    (
        *("y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO"),
        *("on", "On", "ON", "off", "Off", "OFF"),
    )
)
_LONGEST: Final = 3
# What may stand around a word without quotes.
_BEFORE: Final = frozenset(" \n\t-:,[{")
_BEHIND: Final = frozenset(" \n\t:,]}")
_SIGNS: Final = frozenset("+-.0123456789")
_BASES: Final = frozenset("xXbBoO")
_LEADING_ZEROS: Final = (" 0", "-0", "+0", "[0", ",0", "{0")
_BEHIND_ZERO: Final = frozenset("0123456789_")
# Helm and Kubernetes keep numbers as 64-bit floats.
_EXACT: Final = 2**53
_MAX_DEPTH: Final = 60


class _OddError(Exception):
    """The text is not plain."""


def read(text: str) -> dict[str, Any] | None:
    """Return the object of one document, or None where another reader is needed."""
    if _is_odd(text):
        return None
    try:
        tree = yamlfast.parse(text)
        odd: set[str] = set()
        if not isinstance(tree, dict) or _is_unlike(text, tree, _count_map(tree, odd, 0)):
            return None
    except (ValueError, _OddError):
        return None
    return None if any(_is_bare(word, text) for word in odd) else tree


def _is_unlike(text: str, tree: dict[str, Any], colons: int) -> bool:
    """Say whether the text has colons or tabs that are nowhere in the tree."""
    if "\t" in text and text.count("\t") != sum(each.count("\t") for each in _texts(tree)):
        return True
    excess = text.count(": ") + text.count(":\n") + text.endswith(":") - colons
    # Helm writes a comment above what it has rendered.
    if excess <= 1 and excess == text.startswith((_SOURCE, f"---\n{_SOURCE}")):
        return False
    # A line that looks like a comment may be one of a text.
    return any("#" in each and ":" in each for each in _texts(tree)) or excess != _in_comments(text)


def _in_comments(text: str) -> int:
    """Count the colons in comments; raise _OddError where a comment sign may be a part of a text."""
    found = 0
    for line in text.split("\n"):
        before, sign, comment = f" {line}".partition(" #")
        if sign:
            if "'" in before or '"' in before:
                raise _OddError
            found += comment.count(": ") + comment.endswith(":")
    return found


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


def _is_odd(text: str) -> bool:
    # Between brackets the readers differ in what ends a word.
    if any(mark in text for mark in _INDICATORS) or ("\\" in text and any(mark in text for mark in _ESCAPES)):
        return True
    if not text.isascii() and (any(mark in text for mark in _OTHER_LINE_ENDS) or not _is_printable(text)):
        return True
    return "\r" in text or any(_has_zero(text, mark) for mark in _LEADING_ZEROS)


def _is_printable(text: str) -> bool:
    """Say whether no character of the second block of controls is there."""
    return not any(chr(code) in text for code in range(0x80, 0xA0))


def _has_zero(text: str, mark: str) -> bool:
    """Say whether a number may start with a zero that makes it octal to one reader."""
    at = text.find(mark)
    while at >= 0:
        if text[at + 2 : at + 3] in _BEHIND_ZERO:
            return True
        at = text.find(mark, at + 2)
    return False


def _is_bare(word: str, text: str) -> bool:
    """Say whether a word may stand without quotes somewhere, or stands nowhere as it is."""
    if word not in _DISPUTED and word[0] not in _SIGNS and "[" not in text and "{" not in text:
        return False
    at = text.find(word)
    if at < 0:
        return True
    while at >= 0:
        end = at + len(word)
        if (at == 0 or text[at - 1] in _BEFORE) and (end == len(text) or text[end] in _BEHIND):
            return True
        at = text.find(word, end)
    return False


def _count_map(tree: dict[str, Any], odd: set[str], depth: int) -> int:
    """Count the keys, and the colons inside of texts; collect what YAML 1.1 reads differently without quotes."""
    if depth > _MAX_DEPTH:
        raise _OddError
    found = len(tree)
    for key, value in tree.items():
        kind = type(value)
        if kind is str:
            found += _text(value, odd)
        elif kind is dict:
            found += _count_map(value, odd, depth + 1)
        elif kind is list:
            found += _count_list(value, odd, depth + 1)
        elif kind is not bool and value is not None:
            _number(value)
        if type(key) is not str:
            raise _OddError
        found += _text(key, odd)
    return found


def _count_list(items: list[Plain], odd: set[str], depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise _OddError
    found = 0
    for value in items:
        kind = type(value)
        if kind is str:
            found += _text(value, odd)
        elif kind is dict:
            found += _count_map(value, odd, depth + 1)
        elif kind is list:
            found += _count_list(value, odd, depth + 1)
        elif kind is not bool and value is not None:
            _number(value)
    return found


def _text(value: str, odd: set[str]) -> int:
    if len(value) <= _LONGEST and value in _DISPUTED:
        odd.add(value)
    if value[:1] in _SIGNS and value and ("_" in value or not _BASES.isdisjoint(value[1:3])):
        from postrender import scalars

        if scalars.number(value) is not None:
            odd.add(value)
    if value[:1] == ":" or ("?" in value and "\n" not in value):
        # Between brackets Helm does not read it.
        odd.add(value)
    if value.isspace() and "\n" in value:
        # The readers differ in how many empty lines a block text has that has nothing else.
        raise _OddError
    return value.count(": ") + value.count(":\n") if ":" in value else 0


def _number(value: Plain) -> None:
    """Raise _OddError for a number that the readers may keep differently."""
    if type(value) is not int or not -_EXACT < value < _EXACT:
        raise _OddError
