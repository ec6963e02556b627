"""Find secrets by their shape and mask them. The shapes are in schemas/tokens.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from operator import itemgetter
from typing import NamedTuple

from postrender import facts

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
# An escape that writes a character by its code, or continues a quoted string on the next line.
_ESCAPE = re.compile(r"\\[xuU\n\r]")
_BARE_KEY = re.compile(r"(?:local-)?[0-9a-f]{40}")
# Where values name the Secret of a token, by the start of its shape, and the variable that pods read it from.
_PLACES = {
    "huggingface": ("huggingface.secret.name and huggingface.secret.key", "HF_TOKEN"),
    "wandb": ("tracking.wandb.secret.name and tracking.wandb.secret.key", "WANDB_API_KEY"),
}
_ANY_PLACE = ("ray.env.NAME.secret.name and ray.env.NAME.secret.key", "a variable")


class Secret(NamedTuple):
    """The shape and the place of a secret, counted from 1; the secret itself is not stored."""

    shape: str
    line: int
    col: int


@cache
def shapes() -> Mapping[str, re.Pattern[str]]:
    """Return the pattern of each shape by its name, in the order of schemas/tokens.yaml."""
    # One pattern for all would be slower: `re` is fast only where a pattern starts with a literal text.
    return {name: re.compile(pattern) for name, pattern in facts.load("secrets.json").items()}


def _matches(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    for name, pattern in shapes().items():
        for match in pattern.finditer(text):
            yield name, match


def shape_of(text: str) -> str | None:
    """Return the shape of the first kind of secret that the text contains, or None."""
    return next((name for name, _ in _matches(text)), None)


def is_bare_key(text: str) -> bool:
    """Return whether a text is a key of W&B, which has no shape: elsewhere forty digits may be a commit."""
    return _BARE_KEY.fullmatch(text) is not None


def place_of(shape: str) -> str:
    """Return the values that name the Secret of a token of this shape."""
    return _place(shape)[0]


def variable_of(shape: str) -> str:
    """Return the variable that pods read a token of this shape from."""
    return _place(shape)[1]


def _place(shape: str) -> tuple[str, str]:
    return next((place for start, place in _PLACES.items() if shape.startswith(start)), _ANY_PLACE)


def find(text: str) -> list[Secret]:
    """Return the place and shape of every secret in a text, in the order of the text."""
    found = []
    line, begin, last = 1, 0, 0
    for name, start in sorted(((name, match.start()) for name, match in _matches(text)), key=itemgetter(1)):
        line += text.count("\n", last, start)
        begin = text.rfind("\n", last, start) + 1 or begin
        last = start
        found.append(Secret(name, line, start - begin + 1))
    return found


def mask(text: str) -> str:
    """Replace every secret by the name of its shape in angle brackets."""
    for name, match in list(_matches(text)):
        text = text.replace(match[0], f"<{name} token>")
    return text


def may_be_hidden(text: str) -> bool:
    """Return whether YAML text has escapes that can hide a secret from a text search."""
    return _ESCAPE.search(text) is not None


def names_secret(name: str) -> bool:
    """Return whether a key or variable with this name holds a secret, whatever its value looks like."""
    return name.lower().replace("-", "_").endswith(SECRET_NAMES)
