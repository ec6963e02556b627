"""What stands in a text of YAML that its readers may take for different things, found without reading it."""

from __future__ import annotations

from postrender.words import DISPUTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MERGE: Final = "<<"
SIGNS: Final = frozenset("+-.0123456789")
# Anchors, aliases and tags begin a word so; what follows here begins none of them.
_BEGINNINGS: Final = {"&": ("& ", "&\n", "&& ", "&&\n"), "*": ("* ", "*\n", '*"', "*'", "*/"), "!": ("!=",)}
# An escape may make a colon or a bracket out of what is none in the file, and Helm does not know the last of these.
_ESCAPES: Final = (*("\\x0", "\\u000", "\\x3", "\\x5", "\\x7", "\\u003", "\\u005", "\\u007"), "\\U", "\\/")
# Escapes that write any letter.
_LETTERS: Final = ("\\x", "\\u", "\\U")
_OTHER_LINE_ENDS: Final = "\x85\u2028\u2029\ufeff\ufffe\uffff"
# One reader takes these away at the ends of a word.
_OTHER_SPACES: Final = "\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_CONTROLS: Final = "".join(map(chr, range(0x80, 0xA0)))
_NOT_PLAIN: Final = frozenset(_OTHER_LINE_ENDS + _OTHER_SPACES + _CONTROLS)
_ASCII: Final = bytes(range(128))
_QUOTES: Final = "'\""
# What may stand around a word without quotes.
_BEFORE: Final = frozenset(" \n\t-:,[{")
_BEHIND: Final = frozenset(" \n\t:,]}")
_LONGEST_NUMBER: Final = 100
_SIGNED: Final = ("0x", "0X", "0o", "0O")
_EMPTY: Final = (("{", "{}"), ("[", "[]"))
# A block text begins below one of these, which how it is indented and how it ends may follow.
_HEADS: Final = ("|", ">")
_INDENTATION: Final = "+-123456789 \t"


def is_odd(text: str) -> bool:
    """Say whether there are anchors, tags, odd escapes, odd characters, or block texts that begin with a tab."""
    if any(sign in text and _begins_word(text, sign, no) for sign, no in _BEGINNINGS.items()) or _has_mark(text):
        return True
    if "\\" in text and any(escape in text for escape in _ESCAPES):
        return True
    if "\r" in text or ("\t" in text and _begins_with_tab(text)):
        return True
    return not text.isascii() and not _NOT_PLAIN.isdisjoint(_foreign(text))


def has_second_sign(text: str, *, negative: bool) -> bool:
    """Say whether what was read as a number may have two signs, or one behind its base, which make a text of it.

    One reader takes `+-1` and `0x-F` for numbers. `negative` says that there are numbers below zero.
    """
    if "+" in text and (_has(text, _SIGNED, "+") or any(_is_number_behind(text, each) for each in ("++", "+-"))):
        return True
    return negative and _has(text, _SIGNED, "-")


def _has(text: str, starts: tuple[str, ...], sign: str) -> bool:
    return any(f"{start}{sign}" in text for start in starts)


def _is_number_behind(text: str, signs: str) -> bool:
    at = text.find(signs)
    while at >= 0:
        if text[at + 2 : at + 3].isdecimal() and (at == 0 or text[at - 1] in _BEFORE):
            return True
        at = text.find(signs, at + 1)
    return False


def _foreign(text: str) -> str:
    """Return the characters that are none of ASCII."""
    return text.encode("utf-8").translate(None, _ASCII).decode("utf-8")


def _begins_word(text: str, sign: str, no: tuple[str, ...]) -> bool:
    at = text.find(sign)
    while at >= 0:
        if (at == 0 or text[at - 1] in _BEFORE) and not text.startswith(no, at):
            return True
        # The second of two is none that begins a word.
        at = text.find(sign, at + (2 if text.startswith(sign, at + 1) else 1))
    return False


def _has_mark(text: str) -> bool:
    """Say whether a key may stand behind a question mark, and need no colon."""
    at = text.find("?")
    while at >= 0:
        if (at == 0 or text[at - 1] in _BEFORE) and text[at + 1 : at + 2] in " \n":
            return True
        at = text.find("?", at + 1)
    return False


def _begins_with_tab(text: str) -> bool:
    """Say whether a tab stands at the beginning of a line below one that may be the head of a block text."""
    at = text.find("\t")
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        if not text[start:at].strip(" ") and _may_be_head(_line_above(text, start)):
            return True
        end = text.find("\n", at)
        at = text.find("\t", end) if end >= 0 else -1
    return False


def _line_above(text: str, start: int) -> str:
    """Return the nearest line above an offset that has something in it."""
    line = ""
    while start and not line:
        end = start - 1
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end].strip(" ")
    return line


def _may_be_head(line: str) -> bool:
    if line.rstrip(_INDENTATION).endswith(_HEADS):
        return True
    return (" #" in line or "\t#" in line) and any(each in line for each in _HEADS)


def has_line_of(text: str, length: int) -> bool:
    """Say whether a line has so many characters, or nearly."""
    at = 0
    while at + length < len(text):
        end = text.rfind("\n", at, at + length)
        if end < 0:
            return True
        at = end + 1
    return False


def has_flow_over_lines(text: str, bracketed: list[str]) -> bool:
    """Say whether a map or list in brackets may go over several lines; the fast reader ignores how these are indented.

    `bracketed` are the texts and keys of the tree that have brackets.
    """
    if "{" not in text and "[" not in text:
        return False
    inside = "\n".join(bracketed)
    for sign, empty in _EMPTY:
        more = text.count(sign) - inside.count(sign)
        if more and more != text.count(empty) - inside.count(empty):
            # A line break that is written as one makes two lines of one.
            return "\\n" in text or _open_lines(text) != _open_lines(inside)
    return False


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


def colons_in_comments(text: str) -> int:
    """Count the colons in comments; raise ValueError where a comment sign may be in quotes."""
    found, at = 0, text.find("#")
    while at >= 0:
        end = at + 1
        if at == 0 or text[at - 1] in " \n":
            before = text[text.rfind("\n", 0, at) + 1 : at]
            if before.count("'") % 2 or before.count('"') % 2:
                raise ValueError(before)
            end = text.find("\n", at)
            end = end if end >= 0 else len(text)
            found += text.count(":", at, end)
        at = text.find("#", end)
    return found


def may_be_octal(number: int, text: str) -> bool:
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


def may_be_bare(word: str, text: str) -> bool:
    """Say whether a word may stand without quotes somewhere, or stands nowhere as it is."""
    in_brackets = word not in DISPUTED and word[0] not in SIGNS and word != MERGE
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


def may_lack_colon(key: str, text: str) -> bool:
    """Say whether a key may stand in brackets without a colon, which would make good for one that stands twice."""
    if "{" not in text and "[" not in text:
        return False
    at = text.find(key)
    if at < 0 or not key or ("\\" in text and any(escape in text for escape in _LETTERS)):
        return True
    while at >= 0:
        end = at + len(key)
        end += text[end : end + 1] in _QUOTES and end < len(text)
        behind = text[end : end + _LONGEST_NUMBER].lstrip(" \n\t")
        # Behind a colon that nothing follows the readers differ too.
        if behind[:1] in (",", "}", "#", "") or behind[:2] in (":,", ":}", ":]"):
            return True
        at = text.find(key, at + 1)
    return False
