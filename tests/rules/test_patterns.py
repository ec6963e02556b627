"""Patterns that are compiled late are patterns all the same."""

from __future__ import annotations

import sys

from postrender.patterns import Pattern
from postrender.rules import objects


def test_every_pattern_compiles() -> None:
    """A mistake in one would show only when a stream has one of its words."""
    objects.rules()
    modules = [module for name, module in sys.modules.items() if name.startswith("postrender.rules.")]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Pattern)]
    assert len(found) > 20
    assert all(each.compiled().pattern for each in found)


def test_without_one_of_its_words_nothing_is_searched() -> None:
    pattern = Pattern(r"a+\d", "a1", "a2")
    assert pattern.search("xaa1")
    assert pattern.match("a2")
    assert pattern.search("xa3") is None
    assert [*pattern.finditer("a3")] == []
    assert [match[0] for match in pattern.finditer("a1 a2")] == ["a1", "a2"]
