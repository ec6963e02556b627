"""The command `grpo explain`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from grpo.cli import explanations, output
from grpo.cli.command import Command, examples
from postrender.errors import EXIT_CLEAN


@click.command(
    cls=Command,
    epilog=examples("grpo explain nemo-rl/rows-not-divisible", "grpo explain cuda-oom", "grpo explain claims"),
)
@click.argument("ids", nargs=-1, required=True, shell_complete=explanations.complete_ids, metavar="ID...")
def explain(ids: Sequence[str]) -> int:
    """Explain something that a command has found, by its id.

    An id with a slash names a finding of grpo lint, check, watch or report. An id without a slash names a cause from
    grpo why or a check of grpo doctor. grpo rules lists all ids.
    """
    output.write(explanations.pages(ids))
    return EXIT_CLEAN
