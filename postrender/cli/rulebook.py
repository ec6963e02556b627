"""Rules by name on the command line: find them, complete them, and print one in full."""

from __future__ import annotations

from collections.abc import Sequence

import click

from postrender import paths, textfile
from postrender.rules import index
from postrender.rules.rule import Rule


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ids of rules and domains, separated by commas, in a shell."""
    before, comma, word = incomplete.rpartition(",")
    names = dict.fromkeys(name for each in index.everything() for name in (each.domain, each.id))
    return [f"{before}{comma}{name}" for name in names if name.startswith(word)]


def split(words: Sequence[str]) -> list[str]:
    """Split ids and domains at commas."""
    return [word.strip() for each in words for word in each.split(",")]


def named(words: Sequence[str]) -> list[Rule]:
    """Return the rules that ids and domains name; raise UsageError for a word that is neither."""
    return index.called(words, click.get_current_context().command_path)


def pages(words: Sequence[str]) -> str:
    """Return all there is to say about each rule that is named; raise UsageError as `named` does."""
    return "\n".join(map(_page, named(words)))


def _page(rule: Rule) -> str:
    parts = {
        "why": rule.why or "stands with each finding",
        "fix": rule.fix or "stands with each finding",
        "for": rule.versions,
        "source": rule.source,
        "judged by": rule.command,
        "accept it": f'checks: {{ignore: {{{rule.id}: "the reason"}}}}'
        if rule.source and rule.id not in index.never_ignored()
        else "",
    }
    lines = [f"  {name}: {text}\n" for name, text in parts.items() if text]
    return f"{rule.id}  ({rule.severity})\n  {rule.title}\n" + "".join(lines) + _examples(rule)


def _examples(rule: Rule) -> str:
    """Return the examples, which are in a checkout and not in a wheel."""
    shown = []
    for name in ("bad", "good"):
        path = paths.example(rule.id, name)
        if path:
            text = textfile.read_bytes(path).decode("utf-8")
            shown += [f"\n{name}:\n", *(f"  {line}\n" if line else "\n" for line in text.splitlines())]
    return "".join(shown)
