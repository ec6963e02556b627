"""The command `grpo plan`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from postrender import secrets
from postrender.cli import options
from postrender.cli.command import Command, examples, wrong
from postrender.cli.plans import drawing, subject
from postrender.cli.plans.subject import Own, Subject
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS
from postrender.finding import Finding
from postrender.lint import fix as fixing
from postrender.plan import cost, planner
from postrender.plan.advice import changes, limits, offers
from postrender.plan.cost import Cost
from postrender.plan.phase import DOES_NOT_FIT
from postrender.report import comparison
from postrender.report import plan as report
from postrender.report import text as report_text
from postrender.report.plan import Answer
from postrender.values import catalogue
from postrender.values.frameworks import configuration
from postrender.values.set_arguments import Argument


@click.command(
    cls=Command,
    options_metavar="(-f FILE ... | --framework NAME) [OPTIONS]",
    epilog=examples(
        "grpo plan --accelerator h200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo plan -f my-values.yaml --set job.nodes=4 --price 5.5 --format json",
        "grpo plan -f my-values.yaml --compare b200,h200,gb200",
        "grpo plan -f my-values.yaml --fix",
        "grpo plan --framework nemo-rl --config grpo.yaml --accelerator h200 --nodes 2 policy.train_micro_batch_size=1",
        "grpo plan --framework verl --gpu-memory 80 actor_rollout_ref.model.path=Qwen/Qwen3-8B …",
    ),
)
@options.values()
@options.set_values
@options.accelerator_or_gpu
@options.one_of(
    "--framework",
    choices=configuration.FRAMEWORKS,
    help="Plan a configuration of this framework, without our charts. OVERRIDE is what the framework itself takes.",
)
@click.option(
    "--version", metavar="VERSION", help="With --framework: its version. Default: the newest that is not provisional."
)
@click.option("--config", type=options.FILE, metavar="FILE", help="With --framework: the configuration file.")
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="With --framework: how many nodes it gets.")
@click.option("--gpu-memory", type=float, metavar="GB", help="With --framework: a GPU's memory, instead of a profile.")
@click.option("--compare", metavar="NAMES", help="Plan for each of these accelerators: b200,h200.")
@options.output_format(*report.FORMATS)
@click.option("--explain", is_flag=True, help="List what lies in the memory, with formulas and their sources.")
@click.option("--price", type=float, metavar="DOLLARS", help="Price of a GPU hour. Default: platform.pricePerGpuHour.")
@click.option("--svg", type=options.FILE, metavar="FILE", help="Also draw the plan into this file.")
@click.option("--fix", is_flag=True, help="Show the best change, ask, and write it to your values files.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@click.option(
    "--model-config",
    type=options.FILE,
    metavar="FILE",
    help="The config.json of the run's model, for a model whose sizes are not known.",
)
@click.argument("overrides", nargs=-1, metavar="[OVERRIDE ...]")
def plan(
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    model_config: str | None,
    compare: str | None,
    form: str,
    price: float | None,
    svg: str | None,
    overrides: Sequence[str],
    *,
    explain: bool,
    fix: bool,
    yes: bool,
    **own: Any,  # noqa: ANN401 (the options of a configuration without our charts)
) -> int:
    """Compute whether a run fits, before a GPU is rented.

    The command shows which GPUs train and generate, the arithmetic of a step, and the memory of a GPU in every phase,
    of a node and of the run's volume. Each phase fits, is tight (it depends on the lengths of the answers), or does not
    fit. What is not modelled is named. The numbers are computed from formulas, not measured. If the run does not fit,
    the command lists the changes that help, and --fix writes the best one.

    The run is that of values files, or with --framework that of any configuration of NeMo RL or verl.

    The exit code is 1 if the run does not fit.
    """
    without_charts = _configuration(files, arguments, overrides, own)
    if price is not None and not 0 < price < float("inf"):
        raise wrong(f"--price is {price:g}, expected dollars an hour for one GPU, above 0")
    if yes and not fix:
        raise wrong("--yes needs --fix", fix="grpo plan --fix --yes -f …")

    def on(machine: str | None) -> Subject:
        if without_charts:
            return subject.of_configuration(without_charts, machine, model_config)
        return subject.of_stack(files, arguments, machine, model_config)

    if compare:
        return _compare(compare.split(","), on, price, form)
    planned = on(accelerator)
    _tell_provisional(planned)
    answer = _answer(planned, price)
    if fix and answer.changes:
        edits = planned.edits(answer.changes[0])
        finding = Finding("the run does not fit", rule="grpo plan", edits=edits)
        if planned.stack and fixing.apply([finding], planned.stack.values, command="grpo plan", yes=yes):
            answer = _answer(on(accelerator), price)
    if answer.errors:
        told = "".join(f"  {what}  [{rule}]\n" for rule, what in answer.errors)
        head = "the values have errors, so the run may be another one (see grpo rules ID):\n"
        sys.stderr.write(report_text.visible(secrets.mask(head + told)))
    # The plan names the model, which may be a secret in the wrong place.
    text = secrets.mask(report.write(answer, form, explain=explain))
    drawing.show(text)
    if svg:
        drawing.save(text if form == "text" else secrets.mask(report.write(answer, "text", explain=explain)), svg)
    return EXIT_FINDINGS if answer.verdict == DOES_NOT_FIT else EXIT_CLEAN


def _configuration(
    files: Sequence[str], arguments: Sequence[Argument], overrides: Sequence[str], own: dict[str, Any]
) -> Own | None:
    """Return the configuration that --framework and its options give; None without --framework."""
    if own["framework"] is None:
        if given := [f"--{name.replace('_', '-')}" for name, value in own.items() if value is not None]:
            raise wrong(f"{given[0]} needs --framework", fix="give the values files with -f, or --framework")
        if overrides:
            raise wrong(f"{overrides[0]!r} is no option", fix="give values files with -f, and values with --set")
        return None
    if files or arguments:
        raise wrong("-f and --set are for a stack, and --framework is for a configuration without our charts")
    memory = own["gpu_memory"]
    if memory is not None and not 0 < memory < float("inf"):
        raise wrong(f"--gpu-memory is {memory:g}, expected the GB of one GPU, above 0")
    return Own(file=own.pop("config"), overrides=overrides, **own)


def _tell_provisional(*planned: Subject) -> None:
    """Say once that the version of the runs is provisional, if it is."""
    runs = [each.run for each in planned]
    for text in dict.fromkeys(catalogue.provisional(run.framework, run.version) for run in runs):
        sys.stderr.write(f"{text}\n" if text else "")


def _answer(planned: Subject, price: float | None) -> Answer:
    run = planned.run
    found, each = planner.plan(run), price or cost.price(run)
    money = None
    if each and (setup := found.setup):
        gpus = setup.machine.nodes * setup.machine.gpus
        money = Cost(each, gpus, cost.step_time(run), setup.batch.steps)
    return Answer(
        plan=found,
        cost=money,
        limits=limits.limits(run, planned.is_sound),
        changes=changes.useful(run, offers.offers(run), planned.is_sound),
        errors=planned.errors,
    )


def _compare(names: Sequence[str], on: Callable[[str], Subject], price: float | None, form: str) -> int:
    for name in names:
        options.refuse_machine(name)
    subjects = {name: on(name) for name in names}
    _tell_provisional(*subjects.values())
    answers = {name: _answer(each, price) for name, each in subjects.items()}
    drawing.show(secrets.mask(comparison.write(answers, form)))
    return EXIT_FINDINGS if all(each.verdict == DOES_NOT_FIT for each in answers.values()) else EXIT_CLEAN
