"""Find secrets by their shape, and never show them.

Little of the standard library is imported, as the post-renderer starts here: not even `re`, unless a text holds what
may be a secret. The shapes are the lines of schemas/tokens.yaml: `name: 'pattern'`, one a line, which needs no YAML
library to read.
"""

from __future__ import annotations

from postrender import paths
from postrender.errors import InstallationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match

_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SETS = {
    "[A-Za-z0-9]": _WORD - {"_"},
    "[A-Za-z0-9_]": _WORD,
    "[A-Za-z0-9_-]": _WORD | {"-"},
    "[A-Za-z0-9-]": _WORD - {"_"} | {"-"},
    "[A-Z0-9]": frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
}
_shapes: dict[str, str] = {}
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
# Of each pattern what `_starts` returns, and what `_beginnings` returns of all.
_known: dict[str, tuple[str, tuple[str, ...], str]] = {}
_groups: dict[str, list[str]] = {}


class Token:
    """Say where a secret stands and which shape it has; the secret itself is not kept."""

    __slots__ = ("col", "line", "shape")

    def __init__(self, shape: str, line: int, col: int) -> None:
        self.shape = shape
        self.line = line
        self.col = col


def shapes() -> dict[str, str]:
    """Return the patterns by name; raise InstallationError where the list is missing or has another form."""
    if not _shapes:
        file = paths.tokens()
        try:
            with open(file, encoding="utf-8") as stream:
                lines = stream.read().splitlines()
        except (OSError, ValueError) as error:
            fix = "install grpo-charts again"
            raise InstallationError(f"the list of token shapes cannot be read: {file}", fix=fix) from error
        _shapes.update(_entry(file, at, line) for at, line in enumerate(lines, 1) if line and line[0] != "#")
    return _shapes


def _entry(file: str, at: int, line: str) -> tuple[str, str]:
    name, colon, rest = line.rstrip(" ").partition(": ")
    pattern = rest.lstrip(" ")
    text = pattern[1:-1].replace("''", "\0")
    quoted = len(pattern) > 2 and pattern[0] == pattern[-1] == "'" and "'" not in text
    if not (colon and quoted and name.isascii() and name.isalnum() and name[0].isalpha()):
        fix = "install grpo-charts again"
        raise InstallationError(f"{file}:{at}: expected a line of the form name: 'pattern'", fix=fix)
    return name, text.replace("\0", "'")


def _starts(pattern: str) -> tuple[str, tuple[str, ...], str]:
    """Return what all matches begin with, texts of one length of which each begins with one, and the rest."""
    at = 0
    while at < len(pattern) and (pattern[at] in _WORD or pattern[at] == "-"):
        at += 1
    shared, rest = pattern[:at], pattern[at:]
    inner, closed, behind = rest[1:].partition("]")
    if rest[:1] == "[" and closed and inner.isalpha() and behind[:1] not in ("{", "*", "+", "?"):
        # One letter of a few, as in gh[pousr]_.
        _, more, rest = _starts(behind)
        return shared, tuple(f"{shared}{letter}{each}" for letter in inner for each in more), rest
    if rest[:1] in ("{", "*", "+", "?", "|"):
        return shared[:-1], (shared[:-1],), ""
    return shared, (shared,), rest


def _beginnings() -> dict[str, list[str]]:
    """Return the patterns by a text that all their matches begin with, the same for as many as can have one."""
    patterns = shapes().values()
    if not _groups:
        for pattern in patterns:
            _known[pattern] = _starts(pattern.removeprefix("\\b"))
        for pattern in sorted(_known, key=lambda each: len(_known[each][0])):
            shared = _known[pattern][0]
            _groups.setdefault(next(filter(shared.startswith, _groups), shared), []).append(pattern)
    return _groups


def starts() -> list[str]:
    """Return texts of letters, digits, `_` and `-`: what holds none of them holds no secret."""
    _beginnings()
    return sorted({start for _, texts, _ in _known.values() for start in texts})


def _may_match(pattern: str, text: str) -> bool:
    """Say whether a text holds what may match: looking for it costs far less than loading `re` and compiling."""
    boundary = pattern.startswith("\\b")
    shared, starts, rest = _known[pattern]
    name, _, count = rest.rstrip("}").rpartition("{")
    allowed, least = _SETS.get(name), count.rstrip(",")
    at = text.find(shared)
    while at >= 0:
        if text.startswith(starts, at) and not (boundary and at and text[at - 1] in _WORD):
            if allowed is None or not least.isdecimal():
                return True
            end = at + len(starts[0])
            following = text[end : end + int(least)]
            if len(following) == int(least) and allowed.issuperset(following):
                return True
        at = text.find(shared, at + 1)
    return False


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
    groups = _beginnings().items()
    return any(begin in text and any(_may_match(each, text) for each in patterns) for begin, patterns in groups)


def _matches(text: str) -> Iterator[tuple[str, Match[str]]]:
    if not suspects(text):
        return
    import re

    for name, pattern in shapes().items():
        if _may_match(pattern, text):
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
