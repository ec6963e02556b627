"""The command `grpo rules`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from grpo.cli import explanations, options, output, rulebook
from grpo.cli.command import Command, examples
from grpo.rules import index
from postrender.errors import EXIT_CLEAN
from postrender.problem import CHART, LOG, OBJECTS, STREAM, VALUES, Problem

# The names of targets in JSON.
_JUDGES = {VALUES: "values", OBJECTS: "objects", CHART: "charts", LOG: "logs", STREAM: "streams"}


@click.command(
    cls=Command,
    epilog=examples("grpo rules", "grpo rules nemo-rl", "grpo rules pods/duplicate-merge-key"),
)
@click.argument("words", nargs=-1, shell_complete=rulebook.complete, metavar="[ID|DOMAIN]...")
@options.output_format("text", "json")
def rules(words: Sequence[str], form: str) -> int:
    """List the rules of lint and check, or explain one.

    Without a name, the command lists all rules; with a domain, such as nemo-rl, the rules of that domain. With an id,
    it prints what the rule checks, why, what to do, its source, and the framework versions that it applies to.
    """
    listed = rulebook.find_rules(words) if words else index.everything()
    if form == "json":
        sys.stdout.write(json.dumps({"rules": list(map(_fields, listed))}, indent=2, ensure_ascii=False) + "\n")
    elif any("/" in word for word in words):
        output.write(explanations.pages(words))
    else:
        rows = ((each.id, each.severity, each.title, each.versions) for each in listed)
        output.write_table(("rule", "severity", "title", "versions"), rows, lambda: _text(listed))
    return EXIT_CLEAN


def _fields(rule: Problem) -> dict[str, str]:
    names = ("id", "severity", "title", "why", "fix", "source")
    fields = {name: getattr(rule, name) for name in names} | {"judges": _JUDGES[rule.target]}
    return (
        fields
        | {name: getattr(rule, name) for name in ("framework", "since", "before")}
        | {"stopsRun": rule.fails or ""}
    )


def _text(listed: Sequence[Problem]) -> str:
    width = max(len(each.id) for each in listed)
    lines = (
        f"{each.id:<{width}}  {each.severity:<7}  {each.title}" + (f"  ({each.versions})" if each.versions else "")
        for each in listed
    )
    return "\n".join(lines) + "\n"
