"""Read plain values files in a fraction of the time, or not at all. No other module knows py-yaml12.

py-yaml12 reads YAML 1.2 and drops duplicate keys silently, so only files that mean the same to every reader are given
to it: no word that YAML 1.1 reads differently, no anchors, tags, block texts or escapes, no key twice. Whatever else
there is, the answer is None and the caller reads the file with `yamlio`, which knows all of Helm's rules and places.
"""

from __future__ import annotations

from postrender.words import DISPUTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from postrender.plain import Plain

_ODD_WORDS = DISPUTED | {"<<", "="}
_OTHER_LINE_ENDS = frozenset("\r\x85\u2028\u2029")
# A word that starts with one of these means something to YAML: anchor, alias, tag, directive, block text, reserved.
_INDICATORS = frozenset("&*!%|>?@`")
_SPACED = str.maketrans("{}[],:", "      ")
# The library does not survive block lists nested some thousand levels deep; the full reader counts levels.
_MAX_DASHES = 10
_MAX_INDENT = 100
_LONG = 1000
_NUMERIC = frozenset("+-.0123456789")
# With any other letter a word is text to every reader: 250Gi, 2026-11-21T.
_IN_NUMBERS = frozenset("0123456789+-._abcdefxoinABCDEFXOIN")


def load(data: bytes) -> dict[str, Any] | None:
    """Return the values of a plain file, or None where it is not plain enough or the library is missing."""
    try:
        text = data.decode("utf-8")
        # Line ends of other scripts end a comment too, and what follows is read.
        if not _OTHER_LINE_ENDS.isdisjoint(text):
            return None
        lines = list(_bodies(text))
    except ValueError:
        return None
    # The library does not mind what follows a map in braces that is the whole file.
    if not lines or lines[0][0] in "{[" or not all(map(_is_plain, lines)):
        return None
    try:
        from yaml12 import parse_yaml

        tree: Plain = parse_yaml(text)
    except (ImportError, ValueError):
        return None
    colons = sum(line.count(": ") + line.endswith(":") for line in lines)
    # Every key has a colon, so a key that stands twice makes more colons than keys.
    return tree if isinstance(tree, dict) and _keys(tree) == colons else None


# The library does not survive lists nested some thousand levels deep, and reads the first of several documents only.
# It ends a text at the first NUL, and takes other characters that no text may hold.
_CONTROL = bytes({*range(32), 127} - {9, 10, 13})


def parse(text: str) -> Plain:
    """Read any one document as YAML 1.2 does; raise ValueError where the library cannot, or is not to be trusted.

    Words that YAML 1.1 reads differently stay text, and of two equal keys the last one counts.
    """
    if "\n..." in text or "\n%" in text or text[:1] in ("%", "\ufeff") or _is_deep(text):
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
    return text.count("- ") + text.count("-  ") + text.count("? ")


def _bodies(text: str) -> Iterator[str]:
    """Yield the lines without comments and empty lines; raise ValueError where a quote stays open over a line's end."""
    for line in text.split("\n"):
        body = line.partition(" #")[0].rstrip(" ")
        if not body or body.lstrip(" ")[0] == "#":
            continue
        # With an open quote the comment sign above may be text, and the next line may not start where it seems to.
        if body.count("'") % 2 or body.count('"') % 2:
            raise ValueError(body)
        yield body


def _is_plain(body: str) -> bool:
    # Tabs, control characters and the line ends of other scripts are not printable.
    if not body.isprintable() or "\\" in body or "':" in body or '":' in body or body[:3] in ("---", "..."):
        return False
    # Between brackets Helm reads neither a question mark nor a word that starts with a colon.
    if ("[" in body or "{" in body) and ("?" in body or any(f"{mark}:" in body for mark in " [{,")):
        return False
    if body.count("- ") > _MAX_DASHES or body.startswith(" " * _MAX_INDENT):
        return False
    if "{" in body and not _is_plain_flow(body):
        return False
    return all(map(_is_plain_word, body.translate(_SPACED).split()))


def _is_plain_flow(body: str) -> bool:
    """Say whether every map in braces ends on its line and has `key: value` entries only, no bare keys, no lists."""
    if "${" in body:
        # OmegaConf's ${name} is text, as long as no other bracket is on the line.
        return body.count("${") == body.count("{") and "[" not in body
    for part in body.split("{")[1:]:
        inside, end, _ = part.partition("}")
        if not end or (inside.strip() and not all(": " in entry for entry in inside.split(","))):
            return False
    return True


def _is_plain_word(word: str) -> bool:
    first = word[0]
    if first in _INDICATORS:
        return False
    if first not in _NUMERIC:
        return word not in _ODD_WORDS
    if word == "-" or not _IN_NUMBERS.issuperset(word) or word.count(".") > 1:
        return True
    whole, point, rest = word.removeprefix("-").partition(".")
    fraction, _, exponent = rest.partition("e-")
    digits = whole + (fraction + (exponent or "0") if point else "")
    return (
        digits.isdecimal()
        and len(digits) <= 15
        and (whole == "0" or whole[:1] not in ("", "0"))
        and bool(not point or fraction)
    )


def _keys(tree: Plain) -> int:
    """Count the keys; a key that is no text makes the count fail, as Helm turns it into text in its own way."""
    if isinstance(tree, dict):
        texts = all(isinstance(key, str) for key in tree)
        return len(tree) + sum(map(_keys, tree.values())) if texts else -len(tree) - 1_000_000
    return sum(map(_keys, tree)) if isinstance(tree, list) else 0
