"""The command `grpo samples`."""

from __future__ import annotations

import sys

import click

from grpo.cli import options, runs
from grpo.cli.command import Command, examples, wrong
from grpo.cli.runs import Run


@click.command(
    cls=Command,
    options_metavar=runs.USAGE,
    epilog=examples(
        "grpo samples --accelerator b200 -f my-recipe.yaml -f my-site.yaml",
        "grpo samples gemma3-gsm8k-1 -n rl",
        "grpo samples /data/runs/my-run --step 10 --worst --count 3",
    ),
)
@runs.run_options
@click.option("--step", type=click.IntRange(min=1), metavar="N", help="Step, counted from 1. Default: the last.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="How many samples. Default: 5.")
@click.option("--worst", is_flag=True, help="Show the samples with the lowest reward instead of the first.")
@click.option("--best", is_flag=True, help="Show the samples with the highest reward instead of the first.")
@options.output_format("text", "json")
def samples(run: Run, step: int | None, count: int | None, form: str, *, worst: bool, best: bool) -> int:
    """Show what a training step generated, with its rewards.

    The run is that of the values files, or another one of their cluster by its job.name; with --namespace alone RUN
    is the name of a RayJob. DIR is the directory of a run on this machine. The output has prompt, generation and
    reward of some samples, and mean and standard deviation of the step's rewards. Both frameworks write samples at
    every step; verl writes them into logs/rollouts of the run.

    The exit code is 1 if the run has no such data, and 2 if there is no such run.
    """
    if worst and best:
        raise wrong("--worst and --best exclude each other")
    given = {"--json": form == "json", "--worst": worst, "--best": best}
    arguments = [name for name, is_set in given.items() if is_set]
    for name, value in (("--step", step), ("--count", count)):
        arguments += [name, str(value)] if value else []
    done = runs.ask("samples", run, arguments)
    sys.stdout.write(done.output)
    sys.stderr.write(done.errors)
    return done.code
