"""The command `grpo watch`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from grpo.cli import named_run, options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.named_run import Named
from grpo.cli.rulebook import split
from grpo.cli.watching.drawing import Screen
from grpo.cli.watching.guard import Judgement, judgement
from grpo.cli.watching.sources import Place
from grpo.cli.watching.watcher import Watcher
from grpo.problems import registry
from grpo.runlog import events
from postrender.counting import counted
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS
from postrender.finding import ERROR
from postrender.problem import LOG

_DOMAIN = "run/"


def _names() -> dict[str, set[str]]:
    """Return the signs that each --stop-on word stands for: a single sign, or all signs that are errors."""
    severities = {rule.id.removeprefix(_DOMAIN): rule.severity for rule in registry.rules(LOG)}
    errors = {name for name, severity in severities.items() if severity == ERROR}
    return {ERROR: errors, **{name: {name} for name in severities}}


def _stop_on(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> set[str]:
    names = _names()
    signs: set[str] = set()
    for word in split(value):
        if (name := word.removeprefix(_DOMAIN)) not in names:
            message = f"{options.called(param)} is {word!r}, expected {ERROR} or one of {', '.join(sorted(names))}"
            raise wrong(message, near=name, known=[*names])
        signs |= names[name]
    return signs


@click.command(
    cls=Command,
    options_metavar=f"FILE|DIR|-|URL | {named_run.USAGE} [OPTIONS]",
    epilog=examples(
        "grpo watch gemma3-gsm8k-1 --namespace rl --follow",
        "grpo watch http://localhost:8265 --follow --stop-on error",
        "ray job logs --follow JOB | grpo watch -",
        "grpo watch driver.log",
        "grpo watch /data/runs/my-run --format json",
    ),
)
@click.argument("words", nargs=-1, type=options.FILE, metavar="")
@named_run.run_options
@click.option(
    "--token-file",
    type=options.FILE,
    metavar="FILE",
    help="File with the token of Ray's dashboard. Default: the variable RAY_AUTH_TOKEN.",
)
@click.option("--follow", is_flag=True, help="Go on with what is written, as tail -f, until the training has ended.")
@click.option(
    "--stop-on",
    multiple=True,
    metavar="SIGN|error",
    callback=_stop_on,
    shell_complete=options.completing(_names),
    help="Stop with exit code 1 at this sign, or at any that is an error. Part several with commas.",
)
@options.output_format("text", "json")
def watch(
    words: Sequence[str],
    run: Named,
    token_file: str | None,
    stop_on: set[str],
    form: str,
    *,
    follow: bool,
) -> int:
    """Show the steps of a training, and the signs that it does not learn or hangs.

    FILE is the output of a training with NeMo RL or verl, verl's file log, an event file of TensorBoard or a
    run-ID.wandb file; - is stdin. DIR is the directory of a run: its TensorBoard or W&B files, else the outputs of its
    attempts, else the rewards of its samples.

    RUN with --namespace is a RayJob, and values files without a word name the RayJob that they make. It is read in the
    head pod of its cluster, with kubectl: get the RayJob, list pods, and execute in a pod are the rights that it needs.
    URL is Ray's dashboard, or its page of one job; else the newest job
    is watched.

    Each step is a line with reward, length of the answers, loss, KL, time and speed, as far as the log has them. On a
    terminal a curve shows the reward of the last steps. A finding says what is wrong, why it matters and what to do;
    grpo rules run lists the signs. JSON has one object a line.

    With the values files of the run, -f, signs and silence are judged by the limits and deadlines of its guard, and
    the watch stops where the guard would end the run (job.guard.stopOn).

    The exit code is 0 whatever is found, 1 if a sign ended the watch, 2 if there are no steps, and 3 if the cluster
    does not answer.
    """
    if len(words) != 1 and not (run.by_values and not words):
        path = click.get_current_context().command_path
        fix = f"{path} FILE, {path} DIR, {path} RUN --namespace NAME, or ray job logs --follow JOB | {path} -"
        raise wrong("one log is needed", fix=fix)
    place = Place(words[0] if words else "", run, token_file)
    limits, of_guard = judgement(options.with_profile(run.files, run.accelerator), run.arguments)
    # What the command line names stops at once.
    watcher = Watcher(Screen(form), Judgement(limits, {**of_guard, **dict.fromkeys(stop_on, 1)}))
    stopped = watcher.watch(place.read(follow=follow), live=follow or place.word == events.STDIN)
    found = len(watcher.findings)
    sys.stderr.write(f"{counted(watcher.steps, 'step')}, {counted(found, 'finding')}\n")
    return EXIT_FINDINGS if stopped else EXIT_CLEAN
