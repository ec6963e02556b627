"""Evaluate texts with `${...}` using OmegaConf's own grammar, so that the result is the same as in the framework."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final, Protocol

from antlr4 import ParserRuleContext
from omegaconf.errors import GrammarParseError, InterpolationResolutionError
from omegaconf.grammar_parser import parse
from omegaconf.grammar_visitor import GrammarVisitor

from grpo.values.reference_errors import MalformedError, Path, RefusedError, UnknownError, UnknownResolverError
from postrender.types import Json

# A value and its path; the path is None for a value outside the tree, such as the list in `${oc.select:a,[1]}`.
Found = tuple[Json, Path | None]

OPEN: Final = "${"
# References that repeat each other can produce a text of any length.
_MAX_LENGTH = 1_000_000


class Resolver(Protocol):
    """Resolve references and calls; `registered` has the resolvers' names, or None to allow any."""

    registered: Collection[str] | None

    def refer(self, name: str, shown: str, place: Path) -> Found:
        """Return the value that a name refers to from a place; `shown` is the name for messages."""

    def call(self, name: str, arguments: Sequence[Json], place: Path) -> Found:
        """Return the result of a resolver."""


def evaluate(text: str, place: Path, resolver: Resolver) -> Found:
    """Return a text's value at a place, and the value's path.

    Raises UnknownError if the value cannot be determined, RefusedError if the framework would fail, and what the
    resolver raises.
    """
    evaluation = _Evaluation(resolver, place)
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


class _Evaluation(GrammarVisitor):
    """Evaluate one parsed text at a place.

    A reference without a known value is recorded in `unknown`. The rest of the text is still evaluated, because another
    reference in it may be invalid. `place` is the path of the last value.
    """

    def __init__(self, resolver: Resolver, place: Path) -> None:
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


# A text is resolved many times, and parsing is the slowest part.
_parsed = lru_cache(maxsize=1000)(parse)


def _ends_too_early(error: GrammarParseError) -> bool:
    """Return whether the parser stopped at the end of the text."""
    token = getattr(error.__cause__, "offendingToken", None)
    return "<EOF>" in str(error) or getattr(token, "text", "") == "<EOF>"


def _shown(key: ParserRuleContext) -> str:
    """Return a key of a reference for messages, without nested references, whose values may be secrets."""
    text: str = key.getText()
    return "${...}" if OPEN in text else text
