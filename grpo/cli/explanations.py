"""Print everything known about a problem: what it is, what finds it and when, and examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from grpo.problems import cases, index
from postrender import accepted
from postrender.problem import CLUSTER, FAILURE, LOG, Problem
from postrender.registry import GATE, rules_in

# How many of the words that show a failure are listed.
_WORDS = 5
# What these find has no severity, and nothing accepts it.
_LIVE = (CLUSTER, FAILURE)


def complete_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete problem ids in a shell."""
    return [each.id for each in index.everything() if each.id.startswith(incomplete)]


def pages(words: Sequence[str]) -> str:
    """Return the full text for these ids or domains; raise UsageError, suggesting similar names, if one is unknown."""
    found = index.find(words, click.get_current_context().command_path, index.everything())
    return "\n".join(_page(each) for each in found)


def _page(problem: Problem) -> str:
    parts = {
        "why": problem.why,
        "fix": problem.fix,
        "stops a run": problem.fails or "",
        "for": problem.versions,
        "source": problem.source,
        "judged by": "" if problem.target in _LIVE else _commands(problem),
        "accept it": _acceptance(problem),
        **_after(problem),
        "found later by": ", ".join(each.id for each in index.everything() if problem.id in each.earlier),
    }
    lines = [f"  {name}: {text}\n" for name, text in parts.items() if text]
    kind = problem.command if problem.target in _LIVE else problem.severity
    return f"{problem.id}  ({kind})\n  {problem.title}\n" + "".join(lines) + _examples(problem)


def _commands(problem: Problem) -> str:
    return f"{problem.command} and grpo-post-render" if problem in rules_in(GATE) else problem.command


def _after(problem: Problem) -> dict[str, str]:
    """Return what reveals a problem in a cluster, or in a run that has ended."""
    words = [sign.key for sign in problem.logs[:_WORDS]]
    more = len(problem.logs) - len(words)
    is_failure = problem.target == FAILURE
    return {
        "reads": ", ".join(problem.reads),
        "whose": problem.blame if is_failure else "",
        "another start": problem.retry if is_failure else "",
        "value": problem.value,
        "may be found before the start by": ", ".join(problem.earlier),
        "lines with": "; ".join(words) + (f"; and {more} more" if more else ""),
    }


def _acceptance(problem: Problem) -> str:
    """Return how the values can accept a finding of a problem; empty if nothing accepts it."""
    if problem.target in (*_LIVE, LOG) or problem.id in index.never_ignored():
        return ""
    only = "" if accepted.passes_gate(problem.id) else f"  ({problem.command} only)"
    return f'checks: {{ignore: {{{problem.id}: "the reason"}}}}{only}'


def _examples(problem: Problem) -> str:
    """Return the first bad example and the first good one."""
    found = {name: cases.case(problem.id, name) for name in ("bad", "good")}
    texts = {name: case.text if case else "" for name, case in found.items()}
    shown = [line for name, text in texts.items() if text for line in ("", f"{name}:", *_indented(text))]
    return "".join(f"{line}\n" for line in shown)


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in text.splitlines())
