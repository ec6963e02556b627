"""The command `grpo guide`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from grpo.cli import options
from grpo.cli.command import Command, examples
from grpo.cli.judging import explaining, refuse_secrets, refuse_unreadable
from grpo.helm import engines
from grpo.lint.data import counting
from grpo.lint.linter import described_run
from grpo.manifests.needs import prerequisites
from grpo.manifests.needs.prerequisites import Prerequisites
from grpo.start import guide as pages
from grpo.start.next_steps import OF_THIS_MACHINE
from grpo.values.set_arguments import Argument
from postrender import paths
from postrender.errors import EXIT_CLEAN


@click.command(
    cls=Command,
    options_metavar="-f FILE ... [OPTIONS]",
    epilog=examples(
        "grpo guide --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml > my-guide.md",
        "grpo guide --change --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo guide --accelerator h200 -f my-recipe.yaml -f my-site.yaml -n team-a",
    ),
)
@options.values()
@options.set_values
@options.accelerator
@options.helm
@options.namespace("Namespace of the stack. Default: rl.")
@options.counted_data(
    "Count the rows of this file that the run trains on, for the number of checkpoints. Once for each file."
)
@click.option(
    "--change",
    is_flag=True,
    help="Print how to change a run that is installed, instead; give the files with which it was.",
)
def guide(
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    helm: str | None,
    namespace: str | None,
    data: Sequence[tuple[str, str]],
    *,
    change: bool,
) -> int:
    """Print the tutorial with your stack's names filled in.

    It contains every command, in the order in which you run them. The page leads from an empty project, or from your
    own cluster, to a converted and evaluated checkpoint. It is Markdown. The charts are rendered to find the objects
    that they name but do not create: for a Secret, a ConfigMap or a service account, the page has a command that
    creates it; for anything else, one that looks it up. If the page has no steps for a part of the stack, the command
    names that part. With --change, the page says what a change affects, such as another learning rate, more nodes or
    another image, and has the commands for it.
    """
    given = options.with_profile(options.stack_files(files, accelerator), accelerator)
    stack = options.stack(files, accelerator, arguments)
    refuse_secrets(stack)
    refuse_unreadable(stack)
    shown = namespace or "rl"
    run = described_run(stack.values)
    if run and (useless := counting.use(run, data)):
        sys.stderr.write(f"not counted: {useless}\n")

    def rendered() -> Prerequisites:
        with engines.choose(helm) as engine, explaining(stack):
            return prerequisites.of_stack(stack, engine, shown)

    template = paths.change_guide() if change else paths.guide()
    sys.stdout.write(pages.of_files(given, shown, arguments, template=template, prerequisites=rendered))
    if any(os.path.isabs(paths.shown(each)) for each in (*given, paths.charts_of(given))):
        sys.stderr.write(f"{OF_THIS_MACHINE}\n")
    return EXIT_CLEAN
