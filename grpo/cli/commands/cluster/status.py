"""The command `grpo status`."""

from __future__ import annotations

import json
import sys
import time

import click

from grpo.cli import live, named_run, options, output
from grpo.cli.command import Command, examples, surplus, wrong
from grpo.cli.live import Source
from grpo.live.status import text as status_text
from grpo.live.status.summary import sum_up
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS


@click.command(
    cls=Command,
    options_metavar=f"{named_run.USAGE} [OPTIONS]",
    epilog=examples(
        "grpo status --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo status --accelerator b200 -f my-values.yaml -n rl --watch 10",
        "grpo status --accelerator b200 -f my-values.yaml --bundle evidence.tar.gz",
        "grpo status gemma3-gsm8k-1 -n rl",
        "grpo status --from evidence.tar.gz --format json",
    ),
)
@click.argument("run", required=False, metavar="")
@live.evidence_options(attempts=True)
@click.option(
    "--watch", type=click.IntRange(min=1), metavar="SECONDS", help="Repeat every so many seconds, until Ctrl-C."
)
@click.option("--show-commands", is_flag=True, help="Print with each part the command that shows it.")
@options.output_format("text", "json")
def status(source: Source, run: str | None, watch: int | None, form: str, *, show_commands: bool) -> int:
    """Show what runs of a stack in the cluster, and why something waits.

    It shows the releases, the pods of the Ray cluster, the GPUs, the state of the run with step and reward, and for
    each pod that does not run the reason: which nodes there are, and what keeps each from taking it.

    The charts are rendered to know what should be there. For RUN, the name of a RayJob, that is what the RayJob and
    its RayCluster say themselves; then nothing is known of the other layers. Nothing in the cluster is changed;
    what your rights do not let you read is named under "not read".

    The exit code is 0 if all is there and ready and the run has not failed, else 1.
    """
    if watch and not source.is_live:
        raise wrong("--watch repeats a question, but a bundle does not change", fix="leave out --watch or --from")
    if run and not options.is_name(run):
        raise surplus(run)
    while True:
        found = sum_up(source.ask(run or ""))
        if form == "json":
            sys.stdout.write(json.dumps(found.as_json(), indent=2) + "\n")
        else:
            output.write_lines(status_text.lines(found, show_commands=show_commands))
        sys.stdout.flush()
        if not watch:
            return EXIT_CLEAN if found.is_healthy else EXIT_FINDINGS
        time.sleep(watch)
        sys.stdout.write("\n")
