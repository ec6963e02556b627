"""The command `grpo version`."""

from __future__ import annotations

import sys

import click

from grpo.cli.command import Command
from grpo.helm import engines
from postrender import __version__
from postrender.errors import EXIT_CLEAN, GrpoError


@click.command(cls=Command)
def version() -> int:
    """Print the versions of grpo, Python and Helm."""
    try:
        with engines.choose() as engine:
            rendering = engine.name
    except GrpoError as error:
        rendering = f"nothing: {error.message}"
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"grpo {__version__}\npython {python}\nrenders with {rendering}")
    return EXIT_CLEAN
