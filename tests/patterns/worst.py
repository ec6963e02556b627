"""Make the worst texts of a pattern: from its own characters and words, so that a slow one takes long.

A pattern is slow where repeats share characters, or where a search begins anew at each character of a long text. So the
texts are: what leads to a repeat, then what the repeat takes, many times, then what makes it fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

_REPEATS: Final = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_SOME: Final = [*map(chr, range(128)), "\x85", "\xa0", "\xe9", "\xb2", "\u0663", "\u2028", "\u4e2d"]
_CATEGORIES: Final = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}

# So many texts of each part of a pattern.
_MOST: Final = 12
Item = tuple[Any, Any]


class Text(NamedTuple):
    """What begins a text, what is repeated in it, and what ends it."""

    lead: str
    pump: str
    end: str = ""

    def of(self, size: int) -> str:
        """Return the text in a size."""
        return self.lead + self.pump * ((size - len(self.lead)) // len(self.pump)) + self.end


class Worst:
    """The texts of one pattern."""

    def __init__(self, pattern: str, flags: int, is_bytes: bool = False) -> None:
        # So many words of one repeat, or ways to write one part of the pattern, are tried.
        self.tree = list(parser.parse(pattern.encode("latin-1") if is_bytes else pattern, flags))
        self.flags = flags | re.compile(pattern, flags).flags
        self.universe = [each for each in _SOME if not is_bytes or each < "\x80"]
        self.sets = list(self._sets(self.tree))
        kinds = {
            (*(each in one for one in self.sets), each.isalnum(), each == "\n"): each for each in self.universe[::-1]
        }
        # One character for all that this pattern does not tell apart.
        self.kinds = sorted(kinds.values())

    def texts(self) -> Iterator[Text]:
        """Return the texts, each once; none where nothing is repeated, as such a pattern looks at few characters."""
        if not _repeats_something(self.tree):
            return iter(())
        return iter(dict.fromkeys(text for text in self._texts() if text.pump))

    def _texts(self) -> Iterator[Text]:
        for each in self.kinds[: 2 * _MOST]:
            yield Text("", each)
        for words in (self.tree, *self._branches(self.tree)):
            for each in self._samples(words)[:2]:
                yield Text("", each)
        for before, body, run in self._repeats(self.tree, [""]):
            pumps = list(dict.fromkeys([*self._samples(body), *run]))[: _MOST + 2]
            for lead in dict.fromkeys(before):
                yield Text("", lead)
                for pump in pumps:
                    yield Text(lead, pump)
                    yield Text(lead, pump, self._other(pump))
                    yield Text("", lead + pump)

    def _other(self, pump: str) -> str:
        """Return a character that none of the sets has in which the pump's last one is."""
        near = [one for one in self.sets if pump and pump[-1] in one and len(one) > 1]
        return next((each for each in (*self.kinds, "\n", "\0") if not any(each in one for one in near)), "\n")

    def _set(self, code: Any, value: Any) -> frozenset[str]:
        if code is op.IN:
            negated = value[0][0] is op.NEGATE
            found = frozenset().union(*(self._set(*each) for each in value if each[0] is not op.NEGATE))
            return frozenset(self.universe) - found if negated else found
        if code is op.CATEGORY:
            return frozenset(each for each in self.universe if re.match(_CATEGORIES[value], each))
        if code is op.ANY:
            return frozenset(self.universe) - ({"\n"} if not self.flags & re.DOTALL else set())
        if code is op.NOT_LITERAL:
            return frozenset(self.universe) - self._set(op.LITERAL, value)
        low, high = value if code is op.RANGE else (value, value)
        if code is op.LITERAL and chr(low) not in self.universe:
            self.universe.append(chr(low))
        matched = {each for each in self.universe if low <= ord(each) <= high} or {chr(low)}
        if self.flags & re.IGNORECASE:
            matched |= {each for one in matched for each in (one.lower(), one.upper()) if len(each) == 1}
        return frozenset(matched)

    def _sets(self, items: Sequence[Item]) -> Iterator[frozenset[str]]:
        for code, value in items:
            if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
                yield self._set(code, value)
            for each in _inner(code, value):
                yield from self._sets(each)

    def _samples(self, items: Sequence[Item]) -> list[str]:
        """Return texts of a part of the pattern: the shortest first, then those with one other choice."""
        choices = [self._choices(*each) for each in items]
        first = [each[0] for each in choices]
        more = (
            "".join([*first[:at], other, *first[at + 1 :]]) for at, each in enumerate(choices) for other in each[1:]
        )
        return [*dict.fromkeys(["".join(first), *more])][:_MOST]

    def _choices(self, code: Any, value: Any) -> list[str]:
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            taken = self._set(code, value)
            return [each for each in self.kinds if each in taken][:_MOST] or sorted(taken)[:1] or [""]
        if code in _REPEATS:
            least, most, inner = value
            words = self._samples(inner)
            return [
                words[0] * least,
                *(each * max(least, 1) for each in words if most and (not least or each != words[0])),
            ]
        if code is op.AT:
            return ["\n"] if value is op.AT_BEGINNING and self.flags & re.MULTILINE else [""]
        if code is op.GROUPREF:
            return ["a"]
        if code in (op.ASSERT, op.ASSERT_NOT):
            return self._samples(value[1]) if code is op.ASSERT and value[0] < 0 else [""]
        return [each for inner in _inner(code, value) for each in self._samples(inner)] or [""]

    def _branches(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        for code, value in items:
            for inner in _inner(code, value):
                if code is op.BRANCH:
                    yield inner
                yield from self._branches(inner)

    def _repeats(
        self, items: Sequence[Item], before: list[str]
    ) -> Iterator[tuple[list[str], Sequence[Item], list[str]]]:
        """Return for each repeat what leads to it, what it takes, and the words that follow it."""
        for at, (code, value) in enumerate(items):
            if code in _REPEATS and value[1] > 1:
                run = [each for size in (1, 2, 4) for each in self._samples(items[at + 1 : at + 1 + size])[:2] if each]
                yield before, value[2], run
            for inner in _inner(code, value):
                yield from self._repeats(inner, before)
            ways = self._choices(code, value)
            # The shortest way, and the one with all that may be left out.
            ways = [ways[0], ways[1]] if code in _REPEATS and len(ways) > 1 else ways[:1]
            before = [lead + way for lead, way in zip((before * 2)[:2], (ways * 2)[:2], strict=True)]


def _repeats_something(items: Sequence[Item]) -> bool:
    return any(
        (code in _REPEATS and value[1] > 1) or any(map(_repeats_something, _inner(code, value)))
        for code, value in items
    )


def _inner(code: Any, value: Any) -> list[Sequence[Item]]:
    """Return the parts within a part."""
    if code is op.BRANCH:
        return [list(each) for each in value[1]]
    if code is op.SUBPATTERN:
        return [list(value[3])]
    if code in (op.ASSERT, op.ASSERT_NOT):
        return [list(value[1])]
    if code in _REPEATS:
        return [list(value[2])]
    if code is op.ATOMIC_GROUP:
        return [list(value)]
    if code is op.GROUPREF_EXISTS:
        return [list(each) for each in value[1:] if each]
    return []
