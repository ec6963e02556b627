"""The command `grpo plan`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from grpo.cli import options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.plans import drawing, subject
from grpo.cli.plans.prices import Prices
from grpo.cli.plans.subject import Own, Subject
from grpo.lint import fix as fixing
from grpo.plan import cost, planner
from grpo.plan.advice import changes, limits, offers
from grpo.plan.cost import Cost
from grpo.report import comparison
from grpo.report import plan as report
from grpo.report.plan import Answer
from grpo.values import catalogue, machine_names
from grpo.values.frameworks import configuration
from grpo.values.frameworks import data as data_words
from grpo.values.set_arguments import Argument
from postrender import masking, output_file
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS
from postrender.finding import Finding


@click.command(
    cls=Command,
    options_metavar="(-f FILE ... | --framework NAME) [OPTIONS]",
    epilog=examples(
        "grpo plan --accelerator h200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo plan -f my-values.yaml --set job.nodes=4 --price 5.5 --format json",
        "grpo plan -f my-values.yaml --compare b200,h200 --price b200=5.5,h200=3.8",
        "grpo plan -f my-values.yaml --data train=train.parquet",
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
@click.option(
    "--price",
    metavar="DOLLARS",
    help="Price of a GPU hour, or of each machine: b200=5.5,h200=3.8. Default: platform.pricePerGpuHour.",
)
@click.option("--svg", type=options.OUTPUT, metavar="FILE", help="Also draw the plan into this file.")
@click.option("--fix", is_flag=True, help="Show the best change, ask, and write it to your values files.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@click.option(
    "--model-config",
    type=options.FILE,
    metavar="FILE",
    help="The config.json of the run's model, for a model whose sizes are not known.",
)
@options.counted_data(
    "Count the rows of this file that the run trains on, for its steps and checkpoints. Once for each file."
)
@click.argument("overrides", nargs=-1, metavar="[OVERRIDE ...]")
def plan(
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    model_config: str | None,
    data: Sequence[tuple[str, str]],
    compare: str | None,
    form: str,
    price: str | None,
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

    The steps of a run on files of your own depend on their rows. Without --data it is not judged whether the volume
    holds all checkpoints.

    The run is that of values files, or with --framework that of any configuration of NeMo RL or verl.

    The exit code is 1 if the run does not fit, or if the values have errors: the answer names them.
    """
    if svg is not None:
        output_file.refuse(svg, mark=drawing.MARK, inputs=options.inputs())
    without_charts = _configuration(files, arguments, overrides, own)
    machines = [
        machine_names.profile(name) for name in (compare.split(",") if compare else filter(None, [accelerator]))
    ]
    prices = Prices.read(price, machines)
    if data and without_charts:
        raise wrong("--data needs -f", fix="give the values files of the stack, or write total_training_steps")
    if yes and not fix:
        raise wrong("--yes needs --fix", fix="grpo plan --fix --yes -f …")

    def on(machine: str | None) -> Subject:
        if without_charts:
            return subject.of_configuration(without_charts, machine, model_config)
        return subject.of_stack(files, arguments, machine, model_config, data)

    if compare:
        return _compare(machines, on, prices, form)
    planned = on(accelerator)
    _tell_provisional(planned)
    answer = _answer(planned, accelerator, prices)
    if fix and answer.changes:
        edits = planned.edits(answer.changes[0])
        finding = Finding("the run does not fit", rule="grpo plan", edits=edits)
        if planned.stack and fixing.apply([finding], planned.stack.values, command="grpo plan", yes=yes):
            answer = _answer(on(accelerator), accelerator, prices)
    # The plan names the model, which may be a secret in the wrong place.
    text = masking.text(report.write(answer, form, explain=explain))
    drawing.show(text)
    if svg is not None:
        drawing.save(text if form == "text" else masking.text(report.write(answer, "text", explain=explain)), svg)
    return EXIT_FINDINGS if answer.is_bad else EXIT_CLEAN


def _configuration(
    files: Sequence[str], arguments: Sequence[Argument], overrides: Sequence[str], own: dict[str, Any]
) -> Own | None:
    """Return the configuration given by --framework and its options; None without --framework."""
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
    """Report, once, that the version of the runs is provisional, if it is."""
    runs = [each.run for each in planned]
    for text in dict.fromkeys(catalogue.provisional(run.framework, run.version) for run in runs):
        sys.stderr.write(f"{text}\n" if text else "")


def _answer(planned: Subject, machine: str | None, prices: Prices) -> Answer:
    run = planned.run
    found, each = planner.plan(run), prices.price(machine, run)
    money = None
    if each and (setup := found.setup):
        gpus = setup.machine.nodes * setup.machine.gpus
        money = Cost(each, gpus, cost.step_time(run), setup.batch.steps)
    most = limits.limits(run, planned.is_sound)
    return Answer(
        plan=found,
        data=data_words.words(run),
        cost=money,
        limits=most,
        changes=changes.useful(run, offers.offers(run, limits.fitting(most)), planned.is_sound),
        savings=changes.savings(run, [offers.colocated(run)], planned.is_sound),
        errors=planned.errors,
    )


def _compare(names: Sequence[str], on: Callable[[str], Subject], prices: Prices, form: str) -> int:
    subjects = {name: on(name) for name in names}
    _tell_provisional(*subjects.values())
    answers = {name: _answer(each, name, prices) for name, each in subjects.items()}
    drawing.show(masking.text(comparison.write(answers, form)))
    return EXIT_FINDINGS if all(each.is_bad for each in answers.values()) else EXIT_CLEAN
