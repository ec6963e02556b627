"""The options of the commands that judge: --format, --fail-on and --select."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import click

from postrender.cli.options import one_of, output_format
from postrender.cli.output import Report
from postrender.cli.rulebook import complete, find_rules, split
from postrender.finding import SEVERITIES
from postrender.report import formats


def judging(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which gets them as one Report in its parameter `report`."""

    @output_format(*formats.FORMATS)
    @one_of(
        "--fail-on",
        choices=SEVERITIES,
        default=SEVERITIES[0],
        help="Exit with 1 for findings of this severity or a worse one.",
    )
    @click.option(
        "--select",
        multiple=True,
        metavar="ID|DOMAIN",
        shell_complete=complete,
        help="Print the findings of this rule, or of the rules of this domain, only. Part several with commas.",
    )
    @functools.wraps(function)
    def command(*, form: str, fail_on: str, select: Sequence[str], **options: object) -> int:
        selected = {rule.id for rule in find_rules(split(select))} if select else None
        return function(report=Report(form, fail_on, selected), **options)

    return command
