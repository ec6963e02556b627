"""Find secrets by their shape, and never show them.

Little of the standard library is imported, as the post-renderer starts here: not even `re`, unless a text holds what
may be a secret.
"""

from __future__ import annotations

from postrender.precomputed import BEGINNINGS, GROUPS, TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match

_ESCAPED = frozenset("xuU\n\r")
SECRET_NAMES = (
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "secret_key",
    "access_key",
    "private_key",
)


class Token:
    """Say where a secret stands and which shape it has; the secret itself is not kept."""

    __slots__ = ("col", "line", "shape")

    def __init__(self, shape: str, line: int, col: int) -> None:
        self.shape = shape
        self.line = line
        self.col = col


def starts() -> list[str]:
    """Return texts of letters, digits, `_` and `-`: what holds none of them holds no secret."""
    return sorted({start for _, texts, *_ in BEGINNINGS.values() for start in texts})


def _may_match(shape: str, text: str) -> bool:
    """Say whether a text holds what may be of a shape: looking for it costs far less than loading `re`."""
    shared, starts, begins_word, least, allowed = BEGINNINGS[shape]
    at = text.find(shared)
    while at >= 0:
        if text.startswith(starts, at) and not (begins_word and at and _is_of_word(text[at - 1])):
            if allowed is None:
                return True
            end = at + len(starts[0])
            following = text[end : end + least]
            if len(following) == least and not following.strip(allowed):
                return True
        at = text.find(shared, at + 1)
    return False


def _is_of_word(letter: str) -> bool:
    """Say whether no word can begin behind a letter; of other alphabets' letters the patterns decide."""
    return letter.isascii() and (letter.isalnum() or letter == "_")


def may_be_hidden(text: str) -> bool:
    """Say whether a text has escapes that write letters in another way, or that put a word together from two lines."""
    at = text.find("\\")
    while at >= 0:
        if text[at + 1 : at + 2] in _ESCAPED:
            return True
        at = text.find("\\", at + 1)
    return False


def suspects(text: str) -> bool:
    """Say whether a text may hold a secret; False is certain, and far cheaper for a long text than for its parts."""
    return any(begin in text and any(_may_match(each, text) for each in shapes) for begin, shapes in GROUPS.items())


def _matches(text: str) -> Iterator[tuple[str, Match[str]]]:
    if not suspects(text):
        return
    import re

    for name, pattern in TOKENS.items():
        if _may_match(name, text):
            for match in re.finditer(pattern, text):
                yield name, match


def shape_of(text: str) -> str | None:
    """Return the name of the shape of a secret that the text contains, or None."""
    return next((name for name, _ in _matches(text)), None)


def find(text: str) -> list[Token]:
    """Return the place and shape of every secret in a text, in the order of the text."""
    found = []
    for name, match in _matches(text):
        start = match.start()
        found.append(Token(name, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)))
    return sorted(found, key=lambda token: (token.line, token.col))


def names_secret(name: str) -> bool:
    """Say whether a key or a variable of this name holds a secret, whatever its value looks like."""
    return name.lower().endswith(SECRET_NAMES)


def mask(text: str) -> str:
    """Replace every secret by its shape in angle brackets: the last guard before a message is printed."""
    for name, match in list(_matches(text)):
        text = text.replace(match[0], f"<{name} token>")
    return text
