"""The command `grpo lint`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from grpo.cli import options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.judging import judging, kinds
from grpo.cli.output import Report, complain, tell
from grpo.helm import engines
from grpo.helm.stack import Stack
from grpo.lint import fix as fixing
from grpo.lint import unjudged
from grpo.lint.linter import can_render, described_run, judge_values
from grpo.report.scope import Scope
from grpo.values import catalogue, models, row_counts
from grpo.values.set_arguments import Argument
from postrender import masking
from postrender.errors import EXIT_CANNOT_RUN, EXIT_CLEAN, EngineError, GrpoError, InputError, UnreadableError
from postrender.finding import Finding

if TYPE_CHECKING:
    from grpo.check.rendered import Verdict
    from grpo.lint.data.judge import Verdict as DataVerdict


@click.command(
    cls=Command,
    options_metavar="-f FILE ... [OPTIONS]",
    epilog=examples(
        "grpo lint --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo lint -f my-values.yaml --set job.nodes=4 -n rl",
        "grpo lint -f my-values.yaml --select nemo-rl,values/unknown-key --format github",
        "grpo lint -f my-values.yaml --data train=train.jsonl --data validation=test.jsonl",
        "grpo lint --accelerator b200 -f my-values.yaml --fix",
    ),
)
@options.values()
@options.set_values
@options.accelerator
@options.helm
@options.namespace("Namespace of the releases. Default: default.")
@options.kube_version("Kubernetes version of the objects and of the charts' capabilities. Default: 1.35 for objects.")
@judging
@click.option("--no-render", is_flag=True, help="Judge the values only: faster, and without Helm.")
@click.option(
    "--model-config",
    type=options.FILE,
    metavar="FILE",
    help="The config.json of the run's model, for a model whose sizes are not known.",
)
@options.data("Judge the first rows of this file of the run's data: train=FILE or validation=FILE. Repeatable.")
@click.option("--fix", is_flag=True, help="Show the changes that findings propose, ask, and write them to your files.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
def lint(
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    helm: str | None,
    namespace: str | None,
    kube_version: str | None,
    model_config: str | None,
    data: Sequence[tuple[str, str]],
    report: Report,
    *,
    no_render: bool,
    fix: bool,
    yes: bool,
) -> int:
    """Judge a stack: values, charts and objects.

    The command checks spelling, types and structure with the charts' schemas, and looks for secrets and for values that
    Helm misreads. It judges the run that the values describe with the rules of its training framework and version. Then
    it renders the charts and judges the objects as grpo check does; if grpo init --vendor has copied charts beside the
    values files, it renders those. The last line says what was judged and what was not. If Helm cannot run, the values
    are still judged, and the exit code is 3.

    With --data it reads the first rows of a file, at most 1,000 and 64 MiB, and compares them with what the framework
    and this run's rewards read: columns, types, answers, rows that are in both files. Anything that it cannot judge,
    such as a custom data set class, is named, and the exit code is 3.

    To accept a finding, add its rule to checks.ignore in the values, with the reason.
    """
    if yes and not fix:
        raise wrong("--yes needs --fix", fix="grpo lint --fix --yes -f …")
    schemas = kinds(kube_version)
    found: list[Finding] = []
    verdict, no_charts = None, "--no-render" if no_render else "correct the values first"
    of_data = None
    try:
        stack = options.stack(files, accelerator, arguments)
        if model_config:
            models.add(unjudged.model_name(stack.values), model_config)
        _count(stack, data)
        of_values = judge_values(stack.values)
        if fix and fixing.apply(report.of(of_values), stack.values, command="grpo lint", yes=yes):
            stack = options.stack(files, accelerator, arguments)
            of_values = judge_values(stack.values)
        found = of_values
        if data:
            from grpo.lint.data.judge import judge as judge_data  # noqa: PLC0415 (only with --data)

            of_data = judge_data(stack.values, data)
            found = sorted([*found, *of_data.findings], key=Finding.key)
        if not no_render and can_render(found):
            from grpo.check import rendered  # noqa: PLC0415 (only with charts)

            target = rendered.Target(namespace or "default", kube_version)
            with engines.choose(helm) as engine:
                verdict = rendered.judge(stack, engine, schemas, target, found)
            found = sorted([*found, *verdict.findings], key=Finding.key)
    except EngineError as error:
        # Without Helm the values are judged, and the charts are not.
        scope = _scope(stack, None, of_data, no_charts="Helm could not run", all_rules=report.of_all_rules)
        why = "What the charts render has not been judged."
        report.tell(error, stack.files[0], report.of(found), why=why, scope=scope)
        complain(error)
        code = error.exit_code
    except GrpoError as error:
        report.tell(error, [*files, "values"][0], report.of(found))
        raise
    else:
        scope = _scope(stack, verdict, of_data, no_charts=no_charts, all_rules=report.of_all_rules)
        code = report.deliver(report.of(found), scope)
    clean = code == EXIT_CLEAN and not report.of(found)
    if of_data and of_data.unjudged:
        clean, code = False, EXIT_CANNOT_RUN
    # It names the model, which may be a secret in the wrong place.
    tell(masking.text(_summary(stack, scope, clean=clean)) + report.left_out(found))
    return code


def _count(stack: Stack, data: Sequence[tuple[str, str]]) -> None:
    """Count the rows of the training, which give the number of checkpoints; what cannot be read is told later."""
    row_counts.use({})
    if data and (run := described_run(stack.values)):
        from grpo.lint.data import counting  # noqa: PLC0415 (only with --data)

        with contextlib.suppress(InputError, UnreadableError):
            counting.use(run, data)


def _scope(
    stack: Stack, verdict: Verdict | None, data: DataVerdict | None, *, no_charts: str, all_rules: bool
) -> Scope:
    """Return what was judged and what was not; without a verdict, `no_charts` says why the charts were not judged."""
    of_data = [*data.unjudged, *data.partly] if data else [*unjudged.rows(stack.values)]
    rows = data.rows if data else None
    of_values = unjudged.of(stack.values)
    if verdict:
        missing = [*of_data, *_refusing(verdict.refused), *of_values]
        return Scope(stack.files, verdict.rendered, verdict.objects, rows, missing, all_rules, stack.copied_charts)
    missing = [*of_data, f"what the charts render ({no_charts})", *of_values]
    return Scope(stack.files, None, 0, rows, missing, all_rules)


def _summary(stack: Stack, scope: Scope, *, clean: bool) -> str:
    """Return the line that says what was judged and what was not, plus another line for a provisional version."""
    word = "clean" if clean else "judged"
    selected = "" if scope.all_rules else " (selected rules only)"
    provisional = catalogue.provisional(str(stack.values.get("job.framework")), str(stack.values.get("job.version")))
    more = f"\n{provisional}" if provisional else ""
    return f"{word}: {', '.join(scope.judged())}{selected}; not judged: {', '.join(scope.missing)}{more}\n"


def _refusing(layers: Sequence[str]) -> list[str]:
    return [f"what {', '.join(layers)} would render (the values are refused)"] if layers else []
