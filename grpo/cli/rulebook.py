"""Find rules by name, complete their names in a shell, and print them in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from grpo.rules import index
from postrender import paths, textfile
from postrender.rules import accepted
from postrender.rules.registry import GATE, rules_in
from postrender.rules.rule import Rule


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ids of rules and domains, separated by commas, in a shell."""
    before, comma, word = incomplete.rpartition(",")
    names = dict.fromkeys(name for each in index.everything() for name in (each.domain, each.id))
    return [f"{before}{comma}{name}" for name in names if name.startswith(word)]


def split(words: Sequence[str]) -> list[str]:
    """Split ids and domains at commas."""
    return [word.strip() for each in words for word in each.split(",")]


def find_rules(words: Sequence[str]) -> list[Rule]:
    """Return the rules with these ids and domains; raise UsageError for an unknown name."""
    return index.find(words, click.get_current_context().command_path)


def pages(words: Sequence[str]) -> str:
    """Return the full text of each of these rules; raise UsageError as `find_rules` does."""
    return "\n".join(map(_page, find_rules(words)))


def _page(rule: Rule) -> str:
    parts = {
        "why": rule.why,
        "fix": rule.fix,
        "for": rule.versions,
        "source": rule.source,
        "judged by": f"{rule.command} and grpo-post-render" if rule in rules_in(GATE) else rule.command,
        "accept it": _acceptance(rule),
    }
    lines = [f"  {name}: {text}\n" for name, text in parts.items() if text]
    return f"{rule.id}  ({rule.severity})\n  {rule.title}\n" + "".join(lines) + _examples(rule)


def _acceptance(rule: Rule) -> str:
    """Say how the values accept a finding of a rule; empty if nothing accepts it."""
    if not rule.source or rule.id in index.never_ignored():
        return ""
    only = "" if accepted.passes_gate(rule.id) else f"  ({rule.command} only)"
    return f'checks: {{ignore: {{{rule.id}: "the reason"}}}}{only}'


def _examples(rule: Rule) -> str:
    """Return the examples; fixtures are in a checkout, and not in a wheel."""
    texts = {"bad": rule.bad, "good": rule.good}
    for name in texts:
        path = paths.example(rule.id, name)
        if path:
            texts[name] = textfile.read_bytes(path).decode("utf-8")
    shown = [line for name, text in texts.items() if text for line in ("", f"{name}:", *_indented(text))]
    return "".join(f"{line}\n" for line in shown)


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in text.splitlines())
