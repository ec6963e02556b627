"""The command `grpo values`."""

from __future__ import annotations

import sys

import click

from grpo.cli import reference
from grpo.cli.command import Command, examples
from postrender.errors import EXIT_CLEAN


@click.command(cls=Command, epilog=examples("grpo values", "grpo values ray.workers", "grpo values job.attempt"))
@click.argument("section", required=False, metavar="[SECTION]", shell_complete=reference.complete)
def values(section: str | None) -> int:
    """Print what each value means.

    SECTION is a section or a key, such as ray or ray.workers; without it, all values are printed.
    """
    sys.stdout.write(reference.reference(section))
    return EXIT_CLEAN
