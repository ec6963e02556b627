"""The command `grpo checkpoints`."""

from __future__ import annotations

import re
import sys

import click

from grpo.cli import options, output, runs
from grpo.cli.command import Command, examples
from grpo.cli.runs import Run

# The columns: step, complete, GiB, the metric, and remarks, which contain blanks.
_COLUMNS = 5


@click.command(
    cls=Command,
    options_metavar=runs.USAGE,
    epilog=examples(
        "grpo checkpoints --accelerator b200 -f my-recipe.yaml -f my-site.yaml",
        "grpo checkpoints gemma3-gsm8k-1 -n rl",
        "grpo checkpoints /data/runs/my-run --format json",
    ),
)
@runs.run_options
@click.option("--metric", metavar="NAME", help='Metric by which a checkpoint is "best".')
@options.one_of(
    "--framework",
    choices=("nemo-rl", "verl"),
    help="Training framework. Default: found from the names of the checkpoints.",
)
@options.output_format("text", "json")
def checkpoints(run: Run, metric: str | None, framework: str | None, form: str) -> int:
    """List the checkpoints of a run.

    The run is that of the values files, or another one of their cluster by its job.name; with --namespace alone RUN
    is the name of a RayJob. DIR is the directory of a run on this machine. The list shows for each checkpoint
    whether it is complete or what is missing, its size and its metric, and marks the best one and the one that a
    resume loads. The metric comes from the run's configuration (NeMo RL), or is the first one that the validation
    printed (verl).

    The exit code is 1 if the run has no such data, or only a broken step to resume from, and 2 if there is no such run.
    """
    arguments = ["--json"] if form == "json" else []
    arguments += ["--metric", metric] if metric else []
    arguments += ["--framework", framework] if framework else []
    done = runs.ask("checkpoints", run, arguments)
    if form == "json" or run.show_commands or not done.output:
        sys.stdout.write(done.output)
    else:
        _write(done.output)
    sys.stderr.write(done.errors)
    return done.code


def _write(text: str) -> None:
    """Print the program's table, followed by its advice."""
    head, *lines = text.splitlines()
    rows = [line for line in lines if line.startswith(" ")]
    advice = "".join(f"{line}\n" for line in lines[len(rows) :])
    cells = [re.split(r"  +", line.strip(), maxsplit=_COLUMNS - 1) for line in rows]
    output.write_table((*head.split(), ""), cells, lambda: text, advice)
