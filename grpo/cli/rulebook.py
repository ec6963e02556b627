"""Find rules by name, and complete their names in a shell."""

from __future__ import annotations

from collections.abc import Sequence

import click

from grpo.problems import index
from postrender.problem import Problem


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete comma-separated ids of rules and domains in a shell."""
    before, comma, word = incomplete.rpartition(",")
    names = dict.fromkeys(name for each in index.findable() for name in (each.domain, each.id))
    return [f"{before}{comma}{name}" for name in names if name.startswith(word)]


def split(words: Sequence[str]) -> list[str]:
    """Split ids and domains at commas."""
    return [word.strip() for each in words for word in each.split(",")]


def find_rules(words: Sequence[str]) -> list[Problem]:
    """Return the problems with these ids or domains that a finding can have; raise UsageError for an unknown name."""
    return index.find(words, click.get_current_context().command_path, index.findable())
