"""The command `grpo guide`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from postrender.cli import options
from postrender.cli.command import Command, examples
from postrender.cli.judging import refuse_secrets, refuse_unreadable
from postrender.errors import EXIT_CLEAN
from postrender.start import guide as pages
from postrender.values.set_arguments import Argument


@click.command(
    cls=Command,
    options_metavar="-f FILE ... [OPTIONS]",
    epilog=examples(
        "grpo guide --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml > my-guide.md",
        "grpo guide --accelerator h200 -f my-recipe.yaml -f my-site.yaml -n team-a",
    ),
)
@options.values()
@options.set_values
@options.accelerator
@options.namespace("Namespace of the stack. Default: rl.")
def guide(files: Sequence[str], arguments: Sequence[Argument], accelerator: str | None, namespace: str | None) -> int:
    """Print the tutorial with the names of your stack.

    It has every command, in the order in which you run them. The page goes from an empty project, or from a cluster of
    your own, to a converted and evaluated checkpoint. It is Markdown. Where it has no steps for a part of the stack,
    the command says for which.
    """
    given = options.with_profile(options.stack_files(files, accelerator), accelerator)
    stack = options.stack(files, accelerator, arguments)
    refuse_secrets(stack)
    refuse_unreadable(stack)
    sys.stdout.write(pages.of_files(given, namespace or "rl", arguments))
    return EXIT_CLEAN
