"""The command `grpo plan`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from postrender import secrets
from postrender.cli import options
from postrender.cli.command import Command, examples, wrong
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS, InputError
from postrender.finding import ERROR
from postrender.lint import unjudged
from postrender.lint.linter import described_run, judge_values
from postrender.plan import planner
from postrender.plan.cost import Cost
from postrender.plan.phase import DOES_NOT_FIT
from postrender.report import plan as report
from postrender.values import models
from postrender.values.set_arguments import Argument


@click.command(
    cls=Command,
    options_metavar="-f FILE ... [OPTIONS]",
    epilog=examples(
        "grpo plan --accelerator h200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo plan -f my-values.yaml --explain",
        "grpo plan -f my-values.yaml --set job.nodes=4 --price 5.5 --format json",
    ),
)
@options.values()
@options.set_values
@options.accelerator
@options.output_format(*report.FORMATS)
@click.option("--explain", is_flag=True, help="List what lies in the memory, with formulas and their sources.")
@click.option("--price", type=float, metavar="DOLLARS", help="Price of a GPU hour: adds what the run costs.")
@click.option(
    "--model-config",
    type=options.FILE,
    metavar="FILE",
    help="The config.json of the run's model, for a model whose sizes are not known.",
)
def plan(
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    form: str,
    model_config: str | None,
    price: float | None,
    *,
    explain: bool,
) -> int:
    """Compute whether a run fits, before a GPU is rented.

    The command shows which GPUs train and generate, the arithmetic of a step, and the memory of a GPU in every phase,
    of a node and of the run's volume. Each phase fits, is tight (it depends on the lengths of the answers), or does not
    fit. What is not modelled is named. The numbers are computed from formulas, not measured.

    The exit code is 1 if the run does not fit.
    """
    if price is not None and not 0 < price < float("inf"):
        raise wrong(f"--price is {price:g}, expected dollars an hour for one GPU, above 0")
    stack = options.stack(files, accelerator, arguments)
    if model_config:
        models.add(unjudged.model_name(stack.values), model_config)
    run = described_run(stack.values)
    if run is None:
        fix = "give the profile of a machine, and a recipe; grpo lint says what is missing"
        raise InputError("the values describe no run on a machine", fix=fix)
    planned = planner.plan(run)
    wrong_rules = {each.rule for each in judge_values(stack.values) if each.severity == ERROR}
    if others := sorted(rule for rule in wrong_rules if not rule.startswith("memory/")):
        sys.stderr.write(
            f"the values have errors, so the run may be another one: {', '.join(others)} (see grpo lint)\n"
        )
    cost = Cost(price, planned.setup.machine.nodes * planned.setup.machine.gpus) if price and planned.setup else None
    # The plan names the model, which may be a secret in the wrong place.
    sys.stdout.write(secrets.mask(report.write(planned, form, explain=explain, cost=cost)))
    return EXIT_FINDINGS if planned.verdict == DOES_NOT_FIT else EXIT_CLEAN
