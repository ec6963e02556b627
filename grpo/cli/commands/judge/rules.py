"""The command `grpo rules`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from grpo.cli import explanations, options, output, rulebook
from grpo.cli.command import Command, examples
from grpo.problems import index
from postrender.errors import EXIT_CLEAN
from postrender.problem import CHART, CLUSTER, FAILURE, LOG, OBJECTS, STREAM, VALUES, Problem

# The names of targets in JSON.
_JUDGES = {
    VALUES: "values",
    OBJECTS: "objects",
    CHART: "charts",
    LOG: "logs",
    STREAM: "streams",
    CLUSTER: "cluster",
    FAILURE: "failures",
}


@click.command(
    cls=Command,
    epilog=examples("grpo rules", "grpo rules nemo-rl", "grpo rules pods/duplicate-merge-key"),
)
@click.argument("words", nargs=-1, shell_complete=rulebook.complete, metavar="[ID|DOMAIN]...")
@options.output_format("text", "json")
def rules(words: Sequence[str], form: str) -> int:
    """List what can go wrong, or explain one problem.

    Without a name, the command lists all problems: those that lint and check find, those that watch and report see in
    the steps, those that why reads in a failed run, and those that doctor finds in a cluster. With a domain, such as
    nemo-rl, it lists the domain's problems. With an id, it does the same as grpo explain.
    """
    domains = {each.domain for each in index.findable()}
    lists = all(word in domains for word in words)
    if lists:
        listed = [each for each in index.everything() if not words or ("/" in each.id and each.domain in words)]
    else:
        listed = index.find(words, click.get_current_context().command_path, index.everything())
    if form == "json":
        sys.stdout.write(json.dumps({"rules": list(map(_fields, listed))}, indent=2, ensure_ascii=False) + "\n")
    elif not lists:
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
