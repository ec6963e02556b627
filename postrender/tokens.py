"""Find secrets by their shape, and never show them.

Only the standard library is imported, as the post-renderer starts here. The shapes are the lines of
schemas/tokens.yaml: `name: 'pattern'`, one a line, which needs no YAML library to read.
"""

from __future__ import annotations

import re

from postrender import paths
from postrender.errors import InstallationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ENTRY = re.compile(r"^([A-Za-z][A-Za-z0-9]*): +'((?:[^']|'')+)' *$")
# The letters that a pattern must start with, up to the first character that means something to a regular expression.
_PREFIX = re.compile(r"(?:\\b)?([A-Za-z0-9_-]*)")
_REPEATED = frozenset("?*{+|")
_shapes: dict[str, str] = {}


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
    match = _ENTRY.match(line)
    if not match:
        fix = "install grpo-charts again"
        raise InstallationError(f"{file}:{at}: expected a line of the form name: 'pattern'", fix=fix)
    return match[1], match[2].replace("''", "'")


def _literal(pattern: str) -> str:
    """Return text that every match contains: looking for it costs far less than compiling the pattern."""
    match = _PREFIX.match(pattern)
    literal = match[1] if match else ""
    after = pattern[match.end() : match.end() + 1] if match else ""
    return literal[:-1] if after in _REPEATED else literal


def _matches(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    for name, pattern in shapes().items():
        if _literal(pattern) in text:
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


def mask(text: str) -> str:
    """Replace every secret by its shape in angle brackets: the last guard before a message is printed."""
    for name, match in list(_matches(text)):
        text = text.replace(match[0], f"<{name} token>")
    return text
