"""The command `grpo lint`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from postrender.cli import options, rulebook
from postrender.cli.command import Command, examples, wrong
from postrender.cli.judging import judging
from postrender.cli.output import Report
from postrender.errors import EXIT_CLEAN, GrpoError
from postrender.lint import fix as fixing
from postrender.lint.linter import lint as judge


@click.command(
    cls=Command,
    options_metavar="-f FILE ... [OPTIONS]",
    epilog=examples(
        "grpo lint --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo lint -f my-values.yaml --select nemo-rl,values/unknown-key --format github",
        "grpo lint --accelerator b200 -f my-values.yaml --fix",
    ),
)
@options.values()
@options.accelerator
@judging
@click.option("--fix", is_flag=True, help="Show the changes that findings propose, ask, and write them to your files.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@click.option(
    "--explain",
    multiple=True,
    shell_complete=rulebook.complete,
    metavar="ID",
    help="Explain a rule, as grpo rules ID does.",
)
def lint(
    files: Sequence[str], accelerator: str | None, report: Report, *, fix: bool, yes: bool, explain: Sequence[str]
) -> int:
    """Judge values files without rendering them.

    The command checks spelling, types and structure with the schemas of the charts, and looks for secrets and for
    values that Helm misreads. Then it judges the run that the values describe, with the rules of its training framework
    and version.

    To accept a finding, add its rule to checks.ignore of the values, with the reason.
    """
    if explain:
        sys.stdout.write(rulebook.pages(explain))
        return EXIT_CLEAN
    if yes and not fix:
        raise wrong("--yes needs --fix", fix="grpo lint --fix --yes -f …")
    try:
        given = options.with_profile(options.stack_files(files, accelerator), accelerator)
        findings = report.of(judge(given))
        if fix and fixing.apply(findings, given, yes=yes):
            findings = report.of(judge(given))
    except GrpoError as error:
        report.tell(error, [*files, "values"][0])
        raise
    code = report.deliver(findings)
    if not findings:
        sys.stderr.write(f"clean: {len(given)} values file{'s' if len(given) > 1 else ''}\n")
    return code
