"""Read what OmegaConf's `${...}` stands for in a configuration, without OmegaConf, which takes long to load.

Source: the grammar of OmegaConf 2.3, and the resolvers that NeMo RL registers (mul, div, max). What depends on the
place where the job runs, as `${oc.env:NAME}`, is not known here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from postrender.plain import Plain

    Path = tuple[str, ...]

_OPEN: Final = "${"
_ESCAPED: Final = "\\${"
_WORDS: Final[Mapping[str, bool | None]] = {"null": None, "true": True, "false": False}
_OPENERS: Final = tuple("[{'\"")
# A chain that is longer goes round in circles.
_MAX_DEPTH = 30


class UnknownError(Exception):
    """A value that only the running job knows, or that is not what the asker can use."""


class BrokenError(UnknownError):
    """A reference that is opened and not closed: the framework does not even read the configuration."""


class DanglingError(Exception):
    """A reference to a key that does not exist; `name` is what was looked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _divided(left: Plain, right: Plain) -> Plain:
    return left / right


def _product(left: Plain, right: Plain) -> Plain:
    return left * right


_COMPUTED: Mapping[str, Callable[[Plain, Plain], Plain]] = {"mul": _product, "div": _divided, "max": max}


def value_at(tree: Plain, path: Path) -> Plain:
    """Return the value at a path of keys and list positions; raise KeyError where nothing stands there."""
    for part in path:
        if isinstance(tree, dict):
            tree = tree[part]
        elif isinstance(tree, list) and part.isdecimal() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            raise KeyError(part)
    return tree


def resolved(tree: Mapping[str, Any], path: Path, depth: int = 0) -> Plain:
    """Return the value at a path with what its text refers to put in.

    Raises KeyError where nothing stands there, UnknownError, BrokenError and DanglingError.
    """
    value = value_at(tree, path)
    return _text(tree, value, path, depth) if isinstance(value, str) and _OPEN in value else value


def _text(tree: Mapping[str, Any], text: str, path: Path, depth: int) -> Plain:
    if depth > _MAX_DEPTH:
        raise UnknownError(text)
    start = _opening(text)
    if start < 0:
        return text.replace(_ESCAPED, _OPEN)
    end = _closing(text, start)
    value = _reference(tree, text[start + 2 : end], path, depth)
    if start == 0 and end == len(text) - 1:
        return value
    return f"{text[:start].replace(_ESCAPED, _OPEN)}{value}{_text(tree, text[end + 1 :], path, depth)}"


def _opening(text: str) -> int:
    """Return where the first reference begins, -1 where there is none: behind one backslash there is a plain text."""
    at_ = text.find(_OPEN)
    while at_ > 0 and (at_ - len(text[:at_].rstrip("\\"))) % 2:
        at_ = text.find(_OPEN, at_ + 1)
    return at_


def _closing(text: str, start: int) -> int:
    level = 0
    for at_, letter in enumerate(text[start:], start):
        level += (letter == "{") - (letter == "}")
        if level == 0 and letter == "}":
            return at_
    # A brace in quotes is none; who reads them so is not asked here.
    raise UnknownError(text) if any(quote in text for quote in "'\"") else BrokenError(text)


def _reference(tree: Mapping[str, Any], inside: str, path: Path, depth: int) -> Plain:
    name, colon, arguments = inside.partition(":")
    if not colon:
        return _named(tree, inside, path, depth)
    given = [_argument(tree, part, path, depth) for part in _split(arguments)]
    if name == "oc.select":
        try:
            return _named(tree, str(given[0]), path, depth)
        except DanglingError:
            return given[1] if len(given) > 1 else None
    if name not in _COMPUTED or len(given) != 2:
        raise UnknownError(inside)
    try:
        return _COMPUTED[name](*given)
    except (TypeError, ArithmeticError) as error:
        raise UnknownError(inside) from error


def _named(tree: Mapping[str, Any], name: str, path: Path, depth: int) -> Plain:
    """Return the value of a key by its name: from the root, or with leading dots from where the text stands."""
    name = name.strip()
    if _OPEN in name or name.startswith("["):
        raise UnknownError(name)
    dots = len(name) - len(name.lstrip("."))
    base = path[: len(path) - dots] if dots else ()
    parts = (*base, *name[dots:].replace("[", ".").replace("]", "").split("."))
    try:
        return resolved(tree, parts, depth + 1)
    except KeyError as error:
        if any(_is_reference(tree, parts[:end]) for end in range(1, len(parts))):
            # What stands above it is a reference itself.
            raise UnknownError(name) from error
        raise DanglingError(name) from error


def _is_reference(tree: Mapping[str, Any], path: Path) -> bool:
    try:
        value = value_at(tree, path)
    except KeyError:
        return False
    return isinstance(value, str) and _OPEN in value


def _argument(tree: Mapping[str, Any], text: str, path: Path, depth: int) -> Plain:
    text = text.strip()
    if _OPEN in text:
        return _text(tree, text, path, depth + 1)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text[:1] in _OPENERS or "\\" in text:
        # Lists, maps and quoted texts are not read here.
        raise UnknownError(text)
    digits = text.removeprefix("-").removeprefix("+")
    try:
        return int(text) if digits.isdecimal() and (digits == "0" or digits[0] != "0") else _number(text)
    except ValueError:
        return text


def _number(text: str) -> float:
    if not any(sign in text.lower() for sign in ".e"):
        raise ValueError(text)
    return float(text)


def _split(arguments: str) -> list[str]:
    """Cut at the commas that stand in no braces."""
    parts, level = [""], 0
    for letter in arguments:
        level += (letter == "{") - (letter == "}")
        if letter == "," and not level:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
