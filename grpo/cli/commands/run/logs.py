"""The command `grpo logs`."""

from __future__ import annotations

import sys
import time

import click

from grpo import deadline
from grpo.cli import named_run
from grpo.cli.command import Command, examples
from grpo.cli.named_run import Named
from grpo.cli.watching import printing
from grpo.cli.watching.printing import Tail
from grpo.helm.kubectl import Head
from grpo.manifests import entrypoint
from postrender.errors import EXIT_CLEAN


@click.command(
    cls=Command,
    options_metavar=f"{named_run.USAGE} [OPTIONS]",
    epilog=examples(
        "grpo logs --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml --follow",
        "grpo logs --accelerator b200 -f my-values.yaml -n rl --attempt 2 --tail 100",
        "grpo logs gemma3-gsm8k-1 -n rl --follow",
    ),
)
@click.argument("name", required=False, metavar="")
@named_run.run_options
@click.option("--follow", is_flag=True, help="Go on with what is written, as tail -f, until the job has ended.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Begin with the last N lines.")
@click.option("--show-commands", is_flag=True, help="Print the command that reads what the volume has; do not run it.")
def logs(run: Named, name: str | None, tail: int | None, *, follow: bool, show_commands: bool) -> int:
    """Print the output of a run's driver: live, or what the volume of the run has when the job has ended.

    The run is that of the values files, -f, or RUN, the name of a RayJob. Without values, only as long as it is there.

    The log of a pod has none of it: Ray writes it into a file of the head pod, and the launcher of grpo-job into the
    folder of the run, attempts/N/output.log. kubectl reads it there. Secrets are hidden. A lost connection is named and
    tried again for ten minutes.

    The exit code is 0 whatever the job did, 2 if there is no output, and 3 if the cluster does not answer.
    """
    began = time.monotonic()
    if name and run.by_values:
        raise named_run.named_twice()
    if name:
        run.refuse_of_values(name)
    if show_commands:
        lines = ["-n", str(tail) if tail else "+1", *(["-f"] if follow else [])]
        directory, head = _place(run, name)
        sys.stdout.write(head.shell(["tail", *lines, f"{directory}/output.log"]) + "\n")
        return EXIT_CLEAN
    source = run.of_name(name) if name else run.of_values(lambda: deadline.after(began))
    printing.follow(Tail(source, tail) if tail else source, wait=follow)
    return EXIT_CLEAN


def _place(run: Named, name: str | None) -> tuple[str, Head]:
    """Return the folder of the attempt, and the head pod that sees it."""
    if name:
        plan, head = named_run.find(name, run.namespace, run.cluster)
        return entrypoint.attempt_directory(plan), head
    rendered = run.rendered()
    return rendered.directory, rendered.head(run.namespace, run.cluster)
