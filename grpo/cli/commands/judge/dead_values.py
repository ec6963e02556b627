"""The command `grpo dead-values`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence

import click

from grpo.check import dead_values as check_dead_values
from grpo.cli import options, output
from grpo.cli.command import Command, examples, wrong
from grpo.helm import engines
from grpo.terminal.progress import Progress
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS


@click.command(
    cls=Command,
    options_metavar="CHART [-f FILE ...] [OPTIONS]",
    epilog=examples(
        "grpo dead-values charts/storage --helm ./helm",
        "grpo dead-values my-chart-1.2.3.tgz -f my-values.yaml --format json",
    ),
)
@click.argument("charts", nargs=-1, type=options.FILE, metavar="")
@options.values()
@options.helm
@options.output_format("text", "json")
def dead_values(charts: Sequence[str], files: Sequence[str], helm: str | None, form: str) -> int:
    """List the values of a chart that change nothing.

    CHART is the folder or the package of any chart. The command changes every value of the chart and of the files, one
    by one, and renders the chart again. It lists the values without an effect: misspelt keys, keys that no template
    reads, keys that need another key. Values that have an effect if a boolean beside or above them is inverted share
    one line at that boolean.

    One of our four charts is judged with the other three beside it, which get the same files: what one of them reads is
    not listed.

    The exit code is 1 if there are any, besides defaults of the chart that wait for a boolean.
    """
    if len(charts) != 1:
        raise wrong("one chart is needed", fix="grpo dead-values CHART -f FILE …")
    with engines.choose(helm) as engine:
        with Progress("values") as progress:
            result = check_dead_values.find(engine, charts[0], files, progress=progress.step)
        sys.stderr.write(f"rendered with {engine.name}\n")
    if form == "json":
        sys.stdout.write(check_dead_values.as_json(result))
    else:
        text, below = functools.partial(check_dead_values.as_text, result), check_dead_values.count(result)
        output.write_table(("place", "value", "note"), check_dead_values.rows(result), text, below)
    return EXIT_FINDINGS if result.faults else EXIT_CLEAN
