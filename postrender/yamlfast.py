"""Read plain YAML in a fraction of the time, or not at all. No other module knows py-yaml12.

The library reads YAML 1.2, keeps the last of two equal keys, and says no word about either. So what it gives is taken
only where it must be what Helm and Kubernetes read: no word and no number that YAML 1.1 reads differently, no alias,
and exactly as many colons, tabs and open brackets in the text as the keys and the texts of what was read have, as a key
that stands twice makes one more. Whatever else there is, the answer is None and the caller reads with `yamlio`, which
knows all rules and the places.
"""

from __future__ import annotations

from postrender.words import DISPUTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

    from postrender.plain import Plain

    # What may be something else to other readers: words, numbers, and keys without a value.
    Odd = set[str | int | tuple[str]]

_LONG: Final = 1000
# The library does not survive lists nested some thousand levels deep, and reads the first of several documents only.
# It ends a text at the first NUL, and takes other characters that no text may hold.
_CONTROL = bytes({*range(32), 127} - {9, 10, 13})
# Helm writes this above what it has rendered.
_SOURCE: Final = "# Source: "
# Anchors, aliases and tags begin a word so; what follows here begins none of them.
_BEGINNINGS: Final = {"&": " \n&", "*": " \n\"'/", "!": "="}
_MERGE: Final = "<<"
# An escape may make a colon out of what is none in the file, and Helm does not know the last of these.
_ESCAPES: Final = ("\\x3", "\\u003", "\\U", "\\/")
# The reader may stop in front of what it does not understand: then it does not find this one key more.
_END: Final = "end-of-document:\n"
_OTHER_LINE_ENDS: Final = ("\x85", "\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff")
# No word begins so, but the fast reader takes some between brackets.
_NO_BEGINNING: Final = frozenset(":|>%@`")
_LONGEST: Final = 3
_QUOTES: Final = ("", "'", '"')
# What may stand around a word without quotes.
_BEFORE: Final = frozenset(" \n\t-:,[{")
_LONGEST_NUMBER: Final = 100
_BEHIND: Final = frozenset(" \n\t:,]}")
_SIGNS: Final = frozenset("+-.0123456789")
_SUSPECT: Final = _SIGNS | _NO_BEGINNING | frozenset(" \n\t")
_BASES: Final = frozenset("xXbBoO")
# Helm and Kubernetes keep numbers as 64-bit floats.
_EXACT: Final = 2**53
_MAX_DEPTH: Final = 60
# Of more different numbers each is not looked for.
_MANY: Final = 200


# Keys that need no second look; most keys of a stream stand in it many times.
_plain_keys: set[str] = set()


class _OddError(Exception):
    """The text is not plain."""


def parse(text: str) -> Plain:
    """Read any one document as YAML 1.2 does; raise ValueError where the library cannot, or is not to be trusted.

    Words that YAML 1.1 reads differently stay text, and of two equal keys the last one counts.
    """
    if "\n..." in text or "\n%" in text or text[:1] in ("%", "?", "\ufeff") or _is_deep(text):
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
    if " " * _LONG in text:
        return True
    # Most texts have not as many marks in all their lines together.
    if _marks(text) <= _LONG // 4:
        return False
    return max(map(_marks, text.split("\n"))) > _LONG // 4


def _marks(text: str) -> int:
    return text.count("- ") + text.count("? ")


def load(data: bytes) -> dict[str, Any] | None:
    """Return the values of a file, or None where it is not plain enough or the library is missing."""
    try:
        text = data.decode("utf-8")
    except ValueError:
        return None
    # Helm 4 cuts a file at every line that starts so.
    cut = "\n---" in text or (text.startswith("---") and not text.startswith("---\n"))
    return None if cut else read(text)


def read(text: str) -> dict[str, Any] | None:
    """Return the object of one document, or None where another reader is needed."""
    if _is_odd(text) or not text.endswith("\n"):
        return None
    try:
        tree = parse(text + _END)
        if not isinstance(tree, dict) or tree.pop(_END[:-2], "") is not None or not tree:
            return None
        # What YAML 1.1 reads differently without quotes, and numbers, which it does with a zero in front.
        odd: Odd = set()
        if _is_unlike(text, tree, _count_map(tree, odd, 0)) or len(odd) > _MANY:
            return None
    except (ValueError, _OddError):
        return None
    return None if any(_is_different(each, text) for each in odd) else tree


def _is_unlike(text: str, tree: dict[str, Any], colons: int) -> bool:
    """Say whether the text has colons, tabs or brackets over more lines than one that are in no text of the tree."""
    open_lines = _open_lines(text)
    if open_lines and open_lines != sum(map(_open_lines, _texts(tree))):
        # The fast reader does not mind how the next lines are indented.
        return True
    if "\t" in text and text.count("\t") != sum(each.count("\t") for each in _texts(tree)):
        return True
    excess = text.count(":") - colons
    if excess == text.startswith((_SOURCE, f"---\n{_SOURCE}")):
        return False
    # A line that looks like a comment may be one of a text.
    return any("#" in each and ":" in each for each in _texts(tree)) or excess != _in_comments(text)


def _open_lines(text: str) -> int:
    """Count the lines with brackets that are not closed in them."""
    found, end = 0, 0
    curly, square = text.find("{"), text.find("[")
    while curly >= 0 or square >= 0:
        start = square if curly < 0 else curly if square < 0 else min(curly, square)
        end = text.find("\n", start)
        line = text[start : end if end >= 0 else len(text)]
        found += line.count("{") + line.count("[") > line.count("}") + line.count("]")
        if end < 0:
            break
        # Each sign is looked for once, however far away it is.
        curly = text.find("{", end) if 0 <= curly < end else curly
        square = text.find("[", end) if 0 <= square < end else square
    return found


def _in_comments(text: str) -> int:
    """Count the colons in comments; raise _OddError where a comment sign may be in quotes."""
    found = 0
    for line in text.split("\n"):
        before, sign, comment = f" {line}".partition(" #")
        if sign:
            if before.count("'") % 2 or before.count('"') % 2:
                raise _OddError
            found += comment.count(":")
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
    if any(sign in text and _begins_word(text, sign, no) for sign, no in _BEGINNINGS.items()) or _has_mark(text):
        return True
    if "\\" in text and any(escape in text for escape in _ESCAPES):
        return True
    if text.isascii():
        return "\r" in text
    return "\r" in text or any(mark in text for mark in _OTHER_LINE_ENDS) or _has_controls(text)


def _begins_word(text: str, sign: str, no: str) -> bool:
    at = text.find(sign)
    while at >= 0:
        if (at == 0 or text[at - 1] in _BEFORE) and text[at + 1 : at + 2] not in no:
            return True
        at = text.find(sign, at + 1)
    return False


def _has_mark(text: str) -> bool:
    """Say whether a key may stand behind a question mark, and need no colon."""
    at = text.find("?")
    while at >= 0:
        if (at == 0 or text[at - 1] in _BEFORE) and text[at + 1 : at + 2] in " \n":
            return True
        at = text.find("?", at + 1)
    return False


def _has_controls(text: str) -> bool:
    """Say whether a character of the second block of controls is there."""
    return any(chr(code) in text for code in range(0x80, 0xA0))


def _may_be_octal(number: int, text: str) -> bool:
    """Say whether a number may stand somewhere with a zero in front, which makes it octal to one reader."""
    digits = f"0{abs(number)}"
    at = text.find(digits)
    while at >= 0:
        end = at + len(digits)
        # More zeros and a sign may stand in front; behind the e of 1e-08 they do not begin a number.
        before = text[max(0, at - _LONGEST_NUMBER) : at].rstrip("0")
        before = before.removesuffix("-").removesuffix("+")
        if (not before or before[-1] in _BEFORE) and (end == len(text) or text[end] in _BEHIND):
            return True
        at = text.find(digits, at + 1)
    return False


def _is_different(found: str | int | tuple[str], text: str) -> bool:
    """Say whether what was found may be something else to other readers."""
    if isinstance(found, int):
        return _may_be_octal(found, text)
    if isinstance(found, tuple):
        # In braces a key may have no colon, which would make good for one that stands twice, or nothing behind it.
        return "{" in text and not any(f"{found[0]}{quote}:{end}" in text for quote in _QUOTES for end in " \n")
    return _is_bare(found, text)


def _is_bare(word: str, text: str) -> bool:
    """Say whether a word may stand without quotes somewhere, or stands nowhere as it is."""
    in_brackets = word not in DISPUTED and word[0] not in _SIGNS and word != _MERGE
    if in_brackets and "[" not in text and "{" not in text:
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


def _count_map(tree: dict[str, Any], odd: Odd, depth: int) -> int:
    """Count the keys, and the colons inside of texts; collect what YAML 1.1 reads differently without quotes."""
    if depth > _MAX_DEPTH:
        raise _OddError
    found = len(tree)
    for key, value in tree.items():
        kind = type(value)
        if kind is str:
            if ":" in value:
                found += value.count(":")
            if len(value) <= _LONGEST or value[0] in _SUSPECT or "?" in value:
                _collect(value, odd)
        elif kind is dict:
            found += _count_map(value, odd, depth + 1)
        elif kind is list:
            found += _count_list(value, odd, depth + 1)
        elif kind is float:
            tree[key] = _float(value)
        elif value is None:
            odd.add((key,))
        elif kind is not bool:
            _number(value, odd)
        if key not in _plain_keys:
            found += _key(key, odd)
    return found


def _key(key: Plain, odd: Odd) -> int:
    """Return the colons in a key; raise _OddError for one that is no text."""
    if type(key) is not str:
        raise _OddError
    before = len(odd)
    if " " in key or key == _MERGE:
        # Between brackets a key may have been put together from two lines, which Helm refuses.
        odd.add(key)
    if len(key) <= _LONGEST or key[0] in _SUSPECT or "?" in key:
        _collect(key, odd)
    if len(odd) == before and ":" not in key and len(key) > _LONGEST:
        _plain_keys.add(key)
    return key.count(":")


def _count_list(items: list[Plain], odd: Odd, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise _OddError
    found = 0
    for at, value in enumerate(items):
        kind = type(value)
        if kind is str:
            if ":" in value:
                found += value.count(":")
            if len(value) <= _LONGEST or value[0] in _SUSPECT or "?" in value:
                _collect(value, odd)
        elif kind is dict:
            found += _count_map(value, odd, depth + 1)
        elif kind is list:
            found += _count_list(value, odd, depth + 1)
        elif kind is float:
            items[at] = _float(value)
        elif kind is not bool and value is not None:
            _number(value, odd)
    return found


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
    elif value[:1] in _SIGNS and value and ("_" in value or not _BASES.isdisjoint(value[1:3])):
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
