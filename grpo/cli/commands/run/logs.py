"""The command `grpo logs`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from grpo import deadline
from grpo.cli import options
from grpo.cli.command import Command, examples
from grpo.cli.jobs import run as jobs
from grpo.cli.watching import printing
from grpo.cli.watching.printing import Tail
from grpo.cli.watching.rayjob import Kept, RayJob
from grpo.helm import kubectl
from grpo.values.set_arguments import Argument
from postrender.errors import EXIT_CLEAN


@click.command(
    cls=Command,
    options_metavar="-f FILE ... [OPTIONS]",
    epilog=examples(
        "grpo logs --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml --follow",
        "grpo logs --accelerator b200 -f my-values.yaml -n rl --attempt 2 --tail 100",
    ),
)
@options.values()
@options.set_values
@options.accelerator
@options.helm
@options.namespace("Namespace of the run. Default: that of kubectl's context.")
@click.option(
    "--cluster",
    metavar="NAME",
    callback=options.kubernetes_name,
    help="Another RayCluster that mounts the volume of the run.",
)
@click.option("--follow", is_flag=True, help="Go on with what is written, as tail -f, until the job has ended.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Attempt of the run. Default: job.attempt.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Begin with the last N lines.")
@click.option("--show-commands", is_flag=True, help="Print the command that reads what the volume has; do not run it.")
def logs(
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    helm: str | None,
    namespace: str | None,
    cluster: str | None,
    attempt: int | None,
    tail: int | None,
    *,
    follow: bool,
    show_commands: bool,
) -> int:
    """Print the output of a run's driver: live, or what the volume of the run has when the job has ended.

    The log of a pod has none of it: Ray writes it into a file of the head pod, and the launcher of grpo-job into the
    folder of the run, attempts/N/output.log. kubectl reads it there. Secrets are hidden. A lost connection is named and
    tried again for ten minutes.

    The exit code is 0 whatever the job did, 2 if there is no output, and 3 if the cluster does not answer.
    """
    began = time.monotonic()
    run = jobs.render(options.stack(files, accelerator, arguments), helm, attempt)
    head = run.head(namespace, cluster)
    if show_commands:
        lines = ["-n", str(tail) if tail else "+1", *(["-f"] if follow else [])]
        sys.stdout.write(head.shell(["tail", *lines, f"{run.directory}/output.log"]) + "\n")
        return EXIT_CLEAN
    kept = Kept(run.directory, head.labels)
    source = RayJob(run.name, namespace or kubectl.namespace(), cluster, kept, deadline.after(began))
    printing.follow(Tail(source, tail) if tail else source, wait=follow)
    return EXIT_CLEAN
