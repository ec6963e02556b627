"""Resolve OmegaConf's `${...}` references in a configuration before its job runs.

OmegaConf's own grammar reads the texts, so a text means here what it means to the framework. What a reference leads to
is worked out in this module, for OmegaConf itself cannot be asked about a job that does not run yet:

- It runs the resolvers: `${oc.env:NAME}` reads a variable of this machine, and not of the job's driver.
- It registers resolvers for the whole process: nemo-rl v0.5.0 has no `${div:a,b}`, v0.6.0 has it, and verl has others.
- It stops at the first reference without a value: in `${oc.env:NAME}/${data.nope}` the missing key goes unseen.
- It stops at the first text that it cannot read: with `a: ${b` nothing can be said of the rest of the configuration.
- It does not say which keys form a cycle: `a: ${b}` with `b: ${a}` ends in "maximum recursion depth exceeded".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import mul, truediv
from typing import Any, Final

from antlr4 import ParserRuleContext
from omegaconf._utils import split_key
from omegaconf.errors import GrammarParseError, InterpolationResolutionError
from omegaconf.grammar_parser import parse
from omegaconf.grammar_visitor import GrammarVisitor

from postrender.types import Json
from postrender.values.merge import ListPositionError, value_at

Path = tuple[str, ...]
# A value, and the path at which it stands; None where it stands nowhere, as the list in `${oc.select:a,[1]}`.
Found = tuple[Json, Path | None]

# The resolvers of OmegaConf itself.
BUILT_IN: Final = ("oc.create", "oc.decode", "oc.deprecated", "oc.dict.keys", "oc.dict.values", "oc.env", "oc.select")
# The resolvers that nemo-rl registers, for numbers.
_COMPUTED: Mapping[str, Callable[[float, float], float]] = {"mul": mul, "div": truediv, "max": max}
OPEN: Final = "${"
# Longer chains of references exceed Python's recursion limit, in OmegaConf too.
_MAX_DEPTH = 40
# References that repeat each other can make a text of any length.
_MAX_LENGTH = 1_000_000


class _NoValueError(Exception):
    """A reference without a value; `name` is its own, `place` the path of the text that holds it."""

    place: Path = ()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class UnknownError(_NoValueError):
    """A value that only the running job knows, or that the caller cannot use."""


class DanglingError(_NoValueError):
    """A reference to a key that does not exist; `name` is that key."""


class RefusedError(UnknownError):
    """A reference that makes the framework stop."""


class MalformedError(RefusedError):
    """A text that OmegaConf's grammar does not accept; `is_open` says that a brace is missing at its end."""

    def __init__(self, text: str, *, is_open: bool) -> None:
        super().__init__(text)
        self.is_open = is_open


class CycleError(RefusedError):
    """References that lead back to themselves; `paths` are the keys that hold them, in order.

    `section` is set where a single reference includes the section that it stands in.
    """

    def __init__(self, paths: Sequence[Path], section: Path | None = None) -> None:
        super().__init__(".".join(paths[0]))
        self.paths = [".".join(path) for path in paths]
        self.section = ".".join(section) if section else ""


class AboveRootError(RefusedError):
    """A relative reference with too many leading dots; `most` is the number that leads to the root."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name)
        self.most = most


class UnknownResolverError(RefusedError):
    """A call of a resolver that the framework does not register."""


class EscapedError(RefusedError):
    """A text with a backslash before `${` that fails when the framework resolves its configuration a second time."""


def resolve(tree: Mapping[str, Any], path: Path) -> Json:
    """Return the value at a path with its references resolved.

    Raises KeyError where there is no value, UnknownError, RefusedError and DanglingError.
    """
    return ReferenceResolver(tree).at(path)[0]


class ReferenceResolver:
    """Resolve the references of one configuration.

    `registered` names the resolvers that the framework has; None allows any.
    """

    def __init__(self, tree: Mapping[str, Any], registered: Collection[str] | None = None) -> None:
        self._tree = tree
        self.registered = registered
        # The texts and sections that are being resolved, from the outermost in.
        self._active: list[Path] = []
        self._found: dict[Path, Found] = {}
        self._failed: dict[Path, _NoValueError] = {}
        self._checked: set[Path] = set()

    def check(self, path: Path) -> None:
        """Raise what is wrong with a text and with everything that it includes."""
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
            # The texts beside it can still be wrong.
            pass
        self._checked.add(path)

    @contextmanager
    def _inside(self, place: Path) -> Iterator[None]:
        """Resolve what stands at a place; raise CycleError where it is being resolved already."""
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
        """Raise EscapedError for a text that OmegaConf refuses when it resolves its own result again."""
        value = self.at(path)[0]
        if isinstance(value, str) and OPEN in value:
            try:
                self._evaluate(value, path)
            except (RefusedError, DanglingError) as error:
                raise EscapedError(".".join(path)) from error

    def at(self, path: Path) -> Found:
        """Return the value at a path and where it stands; any part of the path may lead through a reference."""
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
                    self._found[place] = self._evaluate(text, place)
                except _NoValueError as error:
                    error.place = error.place or place
                    self._failed[place] = error
                    raise
        return self._found[place]

    def _evaluate(self, text: str, place: Path) -> Found:
        evaluation = _Evaluation(self, place)
        try:
            with warnings.catch_warnings():
                # OmegaConf warns about empty arguments.
                warnings.simplefilter("ignore")
                value = evaluation.visit(_parsed(text))
        except GrammarParseError as error:
            raise MalformedError(text, is_open=_ends_too_early(error)) from error
        except InterpolationResolutionError as error:
            raise RefusedError(text) from error
        except (RecursionError, ValueError) as error:
            raise UnknownError(text) from error
        if evaluation.unknown:
            raise evaluation.unknown
        if isinstance(value, str) and len(value) > _MAX_LENGTH:
            raise UnknownError(text)
        return value, evaluation.place if isinstance(value, (dict, list)) else place

    def refer(self, name: str, shown: str, place: Path) -> Found:
        """Return what a name refers to from a place; `shown` is the name for messages."""
        try:
            value, found = self.at(_path(name, shown, place))
        except KeyError as error:
            raise DanglingError(shown) from error
        if found is not None and isinstance(value, (dict, list)) and place[: len(found)] == found:
            raise CycleError([place], found)
        return value, found

    def call(self, name: str, arguments: Sequence[Json], place: Path) -> Found:
        """Return what a resolver gives; raise UnknownError for one that needs the running job."""
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


class _Evaluation(GrammarVisitor):
    """Evaluate one parsed text at a place.

    A reference whose value is not known is noted in `unknown`, and the rest of the text is evaluated all the same: it
    may hold one that is refused. `place` is where the last value stands.
    """

    def __init__(self, resolver: ReferenceResolver, place: Path) -> None:
        def name_of(name: str, _memo: object) -> Json:
            return name

        super().__init__(name_of, lambda name, args, args_str: (name, args), memo=None)
        self._resolver = resolver
        self._text_place = place
        self.place: Path | None = place
        self.unknown: UnknownError | None = None

    def visitInterpolation(self, ctx: ParserRuleContext) -> Json:  # noqa: N802 (ANTLR's name)
        before, self.unknown = self.unknown, None
        try:
            value, self.place = super().visitInterpolation(ctx)
        except RefusedError:
            raise
        except UnknownError as error:
            value, self.unknown = "", error
        self.unknown = before or self.unknown
        return value

    def visitInterpolationNode(self, ctx: ParserRuleContext) -> Json:  # noqa: N802 (ANTLR's name)
        name: Json = super().visitInterpolationNode(ctx)
        if self.unknown:
            raise self.unknown
        dots = len(name) - len(name.lstrip("."))
        shown = "." * dots + ".".join(map(_shown, ctx.configKey()))
        return self._resolver.refer(name, shown, self._text_place)

    def visitInterpolationResolver(self, ctx: ParserRuleContext) -> Found:  # noqa: N802 (ANTLR's name)
        name, arguments = super().visitInterpolationResolver(ctx)
        shown = ".".join(map(_shown, list(ctx.resolverName().getChildren())[::2]))
        registered = self._resolver.registered
        is_known = not (self.unknown and OPEN in shown)
        if is_known and registered is not None and name not in registered:
            raise UnknownResolverError(shown)
        if self.unknown:
            raise self.unknown
        return self._resolver.call(name, arguments, self._text_place)


# One text is resolved many times in a run, and parsing it takes longest.
_parsed = lru_cache(maxsize=1000)(parse)


def _ends_too_early(error: GrammarParseError) -> bool:
    """Say whether the parser stopped at the end of the text."""
    token = getattr(error.__cause__, "offendingToken", None)
    return "<EOF>" in str(error) or getattr(token, "text", "") == "<EOF>"


def _shown(key: ParserRuleContext) -> str:
    """Return a key of a reference for messages: what a reference in it gives may be a secret."""
    text: str = key.getText()
    return "${...}" if OPEN in text else text


def _path(name: str, shown: str, place: Path) -> Path:
    """Return the path of a name, which with leading dots is relative to where its text stands."""
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
