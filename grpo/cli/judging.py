"""Shared parts of the commands that judge: --format, --fail-on and --select, schemas, and errors from charts."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence

import click

from grpo.cli.command import wrong
from grpo.cli.options import one_of, output_format
from grpo.cli.output import Report
from grpo.cli.rulebook import complete, find_rules, split
from grpo.helm.stack import Stack
from grpo.lint import refusals
from grpo.lint.linter import can_render, judge_values
from grpo.report import formats
from postrender.errors import GrpoError, InputError, RenderError
from postrender.finding import SEVERITIES
from postrender.manifests import schemas
from postrender.manifests.schemas import Kinds

_SECRETS = ("values/token", "job/secret-by-value")


def judging(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which receives them as one Report in its parameter `report`."""

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


def kinds(version: str | None) -> Kinds:
    """Return the schemas of a Kubernetes version; raise UsageError for a version without schemas."""
    minor = schemas.DEFAULT if version is None else schemas.minor(version)
    if minor is None:
        listed = f"1.{schemas.VERSIONS[0]} to 1.{schemas.VERSIONS[-1]}"
        raise wrong(f"--kube-version is {version!r}, expected one of {listed}")
    return Kinds(minor)


def _with_report(kind: type[GrpoError], report: str) -> GrpoError:
    """Return an error whose message is a report of findings."""
    error = kind(report.rstrip("\n"))
    error.is_report = True
    return error


def refuse_secrets(stack: Stack) -> None:
    """Raise InputError if the values contain a secret: a command that prints them would print it too."""
    if found := [each for each in judge_values(stack.values) if each.rule in _SECRETS]:
        raise _with_report(InputError, formats.write(found, "text"))


def refuse_unreadable(stack: Stack) -> None:
    """Raise InputError if the values are not a stack: sections of a wrong type, or no machine, recipe or site file."""
    if found := [each for each in judge_values(stack.values) if not can_render([each])]:
        raise _with_report(InputError, formats.write(found, "text"))


def of_charts(stack: Stack) -> str:
    """Return which charts were rendered, for the line that names the Helm; empty for the charts in the package."""
    return f", charts in {stack.copied_charts}" if stack.copied_charts else ""


@contextlib.contextmanager
def explaining(stack: Stack) -> Iterator[None]:
    """Report what a chart rejects as grpo lint does, with the lines of the values, instead of with Helm's message.

    Values that contain a secret are rejected first.
    """
    refuse_secrets(stack)
    try:
        yield
    except RenderError as error:
        found = refusals.explained(error, stack.values, judge_values(stack.values))
        report = formats.write(found, "text", SEVERITIES[0])
        if stack.copied_charts:
            # They may be older than the values, and than what we know of charts.
            used = f"rendered with the charts in {stack.copied_charts}: grpo init --vendor compares them"
            report = f"{report.rstrip()}\n{used}"
        raise _with_report(RenderError, report) from error
