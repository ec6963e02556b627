"""Print what an id stands for in full: a finding, a cause of `grpo why`, a check of `grpo doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from grpo.live.doctor import examination
from grpo.live.doctor.check import Check
from grpo.live.why import registry
from grpo.live.why.cause import Cause
from grpo.rules import cases, index
from postrender import accepted
from postrender.problem import Problem
from postrender.registry import GATE, rules_in

# So many of the words that show a cause are listed.
_WORDS = 5


def complete_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the ids of rules, causes and checks of a cluster in a shell."""
    return [name for name in (*(each.id for each in index.everything()), *_live()) if name.startswith(incomplete)]


def _live() -> dict[str, Cause | Check]:
    """Return the causes of `grpo why` and the checks of `grpo doctor` by their ids, which have no slash."""
    causes: dict[str, Cause | Check] = {each.id: each for each in registry.causes()}
    return causes | {each.id: each for each in examination.checks()}


def pages(words: Sequence[str]) -> str:
    """Return the full text of what has these ids or domains; raise UsageError with similar names for an unknown one."""
    others = _live()
    context = click.get_current_context().command_path
    return "\n".join(_page(each) for word in words for each in _named(word, others, context))


def _named(word: str, others: dict[str, Cause | Check], command: str) -> Sequence[Problem | Cause | Check]:
    return [others[word]] if word in others else index.find([word], command, more=others)


def _page(found: Problem | Cause | Check) -> str:
    match found:
        case Cause():
            return _page_of_cause(found)
        case Check():
            reads = ", ".join(found.reads)
            return f"{found.id}  (grpo doctor)\n  {found.title}\n  reads: {reads}\n"
    return _page_of_rule(found)


def _page_of_cause(cause: Cause) -> str:
    words = [sign.key for sign in cause.signs[:_WORDS]]
    more = len(cause.signs) - len(words)
    parts = {
        "whose": cause.blame,
        "fix": cause.fix,
        "another start": cause.retry,
        "value": cause.value,
        "found before by": ", ".join(cause.rule.split()),
        "lines with": "; ".join(words) + (f"; and {more} more" if more else ""),
    }
    lines = [f"  {name}: {text}\n" for name, text in parts.items() if text]
    return f"{cause.id}  (grpo why)\n  {cause.title}\n" + "".join(lines)


def _page_of_rule(rule: Problem) -> str:
    parts = {
        "why": rule.why,
        "fix": rule.fix,
        "stops a run": rule.fails or "",
        "for": rule.versions,
        "source": rule.source,
        "judged by": f"{rule.command} and grpo-post-render" if rule in rules_in(GATE) else rule.command,
        "accept it": _acceptance(rule),
    }
    lines = [f"  {name}: {text}\n" for name, text in parts.items() if text]
    return f"{rule.id}  ({rule.severity})\n  {rule.title}\n" + "".join(lines) + _examples(rule)


def _acceptance(rule: Problem) -> str:
    """Say how the values accept a finding of a rule; empty if nothing accepts it."""
    if not rule.source or rule.id in index.never_ignored():
        return ""
    only = "" if accepted.passes_gate(rule.id) else f"  ({rule.command} only)"
    return f'checks: {{ignore: {{{rule.id}: "the reason"}}}}{only}'


def _examples(rule: Problem) -> str:
    """Return the first examples of what is wrong and of what is right."""
    found = {name: cases.case(rule.id, name) for name in ("bad", "good")}
    texts = {name: case.text if case else "" for name, case in found.items()}
    shown = [line for name, text in texts.items() if text for line in ("", f"{name}:", *_indented(text))]
    return "".join(f"{line}\n" for line in shown)


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in text.splitlines())
