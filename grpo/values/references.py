"""Resolve OmegaConf's `${...}` references in a configuration before its job runs.

OmegaConf's own grammar parses the texts (grammar.py). This module resolves the references, because OmegaConf itself
cannot resolve the configuration of a job that is not running:

- It runs the resolvers: `${oc.env:NAME}` reads a variable on this machine instead of on the job's driver.
- It registers resolvers process-wide: nemo-rl v0.5.0 has no `${div:a,b}`, v0.6.0 has it, and verl has others.
- It stops at the first reference without a value: for `${oc.env:NAME}/${data.nope}` it reports no missing key.
- It stops at the first text that it cannot parse: after `a: ${b` the rest of the configuration is not checked.
- It does not report which keys form a cycle: `a: ${b}` with `b: ${a}` ends in "maximum recursion depth exceeded".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import mul, truediv
from typing import Any, Final

from omegaconf._utils import split_key

from grpo.values.grammar import OPEN, Found, evaluate
from grpo.values.reference_errors import (
    AboveRootError,
    CycleError,
    DanglingError,
    EscapedError,
    NoValueError,
    Path,
    RefusedError,
    UnknownError,
)
from postrender.types import Json
from postrender.values.merge import ListPositionError, value_at

# The resolvers of OmegaConf itself.
BUILT_IN: Final = ("oc.create", "oc.decode", "oc.deprecated", "oc.dict.keys", "oc.dict.values", "oc.env", "oc.select")
# The resolvers that nemo-rl registers, for numbers.
_COMPUTED: Mapping[str, Callable[[float, float], float]] = {"mul": mul, "div": truediv, "max": max}
# Longer chains of references exceed Python's recursion limit, in OmegaConf too.
_MAX_DEPTH = 40


def resolve(tree: Mapping[str, Any], path: Path) -> Json:
    """Return the value at a path with its references resolved.

    Raises KeyError if there is no value, UnknownError if only the running job knows it, DanglingError if it refers to a
    missing key, and RefusedError if the framework would fail.
    """
    return ReferenceResolver(tree).at(path)[0]


class ReferenceResolver:
    """Resolve one configuration's references.

    `registered` names the framework's resolvers; None allows any.
    """

    def __init__(self, tree: Mapping[str, Any], registered: Collection[str] | None = None) -> None:
        self._tree = tree
        self.registered = registered
        # The texts and sections that are being resolved, from the outermost in.
        self._active: list[Path] = []
        self._found: dict[Path, Found] = {}
        self._failed: dict[Path, NoValueError] = {}
        self._checked: set[Path] = set()

    def check(self, path: Path) -> None:
        """Raise the error, if any, of the text at a path or of anything that the text includes."""
        value, place = self.at(path)
        if place is None or not isinstance(value, (dict, list)):
            return
        with self._inside(path):
            for each in _paths_of_references(value, place):
                if each not in self._checked:
                    self._check_within(each)

    def _check_within(self, path: Path) -> None:
        try:
            self.check(path)
        except RefusedError:
            raise
        except UnknownError:
            # Another text can still be invalid.
            pass
        self._checked.add(path)

    @contextmanager
    def _inside(self, place: Path) -> Iterator[None]:
        """Mark a place as being resolved; raise CycleError if it already is."""
        if place in self._active:
            raise CycleError(self._active[self._active.index(place) :])
        if len(self._active) > _MAX_DEPTH:
            raise UnknownError(".".join(place))
        self._active.append(place)
        try:
            yield
        finally:
            self._active.pop()

    def check_again(self, path: Path) -> None:
        """Raise EscapedError if OmegaConf would reject a text when it resolves its own result again."""
        value = self.at(path)[0]
        if isinstance(value, str) and OPEN in value:
            try:
                evaluate(value, path, self)
            except (RefusedError, DanglingError) as error:
                raise EscapedError(".".join(path)) from error

    def at(self, path: Path) -> Found:
        """Return the value at a path and the value's own path; any part of the path may be a reference."""
        place: Path | None = ()
        value: Json = self._tree
        for part in path:
            if place is None:
                raise UnknownError(".".join(path))
            value = value_at(value, (part,))
            place = (*place, part)
            if isinstance(value, str) and OPEN in value:
                value, place = self._resolve_text(value, place)
        return value, place

    def _resolve_text(self, text: str, place: Path) -> Found:
        if place in self._failed:
            raise self._failed[place]
        if place not in self._found:
            with self._inside(place):
                try:
                    self._found[place] = evaluate(text, place, self)
                except NoValueError as error:
                    error.place = error.place or place
                    self._failed[place] = error
                    raise
        return self._found[place]

    def refer(self, name: str, shown: str, place: Path) -> Found:
        """Return the value that a name refers to from a place; `shown` is the name for messages."""
        try:
            value, found = self.at(_path(name, shown, place))
        except KeyError as error:
            raise DanglingError(shown) from error
        if found is not None and isinstance(value, (dict, list)) and place[: len(found)] == found:
            raise CycleError([place], found)
        return value, found

    def call(self, name: str, arguments: Sequence[Json], place: Path) -> Found:
        """Return the result of a resolver; raise UnknownError if the resolver needs the running job."""
        if name == "oc.select" and len(arguments) in (1, 2):
            return self._select(arguments, place)
        are_numbers = all(isinstance(argument, (int, float)) for argument in arguments)
        if name not in _COMPUTED or len(arguments) != 2 or not are_numbers:
            raise UnknownError(name)
        try:
            return _COMPUTED[name](*arguments), None
        except ArithmeticError as error:
            raise UnknownError(name) from error

    def _select(self, arguments: Sequence[Json], place: Path) -> Found:
        name = arguments[0]
        if not isinstance(name, str) or not name.strip("."):
            raise UnknownError("oc.select")
        try:
            return self.at(_path(name, name, place))
        except ListPositionError as error:
            raise UnknownError(name) from error
        except KeyError:
            return (arguments[1] if len(arguments) > 1 else None), None


def _path(name: str, shown: str, place: Path) -> Path:
    """Return the path that a name refers to; with leading dots it is relative to the path of its text."""
    rest = name.lstrip(".")
    dots = len(name) - len(rest)
    if dots > len(place):
        raise AboveRootError(shown, len(place))
    return (*(place[: len(place) - dots] if dots else ()), *split_key(rest))


def _paths_of_references(value: Json, place: Path) -> Iterator[Path]:
    """Yield the paths of the texts with references in a map or a list."""
    if isinstance(value, str) and OPEN in value:
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _paths_of_references(each, (*place, str(key)))
