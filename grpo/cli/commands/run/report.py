"""The command `grpo report`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from grpo.cli import named_run, options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.named_run import Named
from grpo.cli.watching.guard import judgement
from grpo.cli.watching.sources import Place
from grpo.report.runs import formats
from grpo.report.runs.run import read_all
from grpo.terminal.watched import is_watched
from postrender import output_file
from postrender.counting import counted
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS, OutputError
from postrender.finding import SEVERITIES, is_at_least

_MOST = 4
_SUFFIXES = {
    formats.HTML: (".html", ".htm"),
    formats.JSON: (".json",),
    formats.MARKDOWN: (".md", ".markdown", ".txt"),
}


@click.command(
    cls=Command,
    options_metavar=f"LOG... | {named_run.USAGE} [OPTIONS]",
    epilog=examples(
        "grpo report driver.log -o report.html",
        "grpo report /data/runs/my-run -o report.html",
        "grpo report before.log after.log -o comparison.html",
        "grpo report driver.log --format markdown --fail-on warning",
        "grpo report driver.log -f my-site.yaml -o report.html",
        "grpo report gemma3-gsm8k-1 -n rl -o report.html",
    ),
)
@click.argument("words", nargs=-1, type=options.FILE, metavar="")
@click.option("-o", "--output", type=options.OUTPUT, metavar="FILE", help="Write into this file instead of stdout.")
@options.output_format(*formats.FORMATS)
@options.one_of(
    "--fail-on",
    choices=SEVERITIES,
    default=SEVERITIES[0],
    help="Exit with 1 for findings of this severity or a worse one.",
)
@named_run.run_options
def report(
    words: Sequence[str],
    run: Named,
    output: str | None,
    form: str,
    fail_on: str,
) -> int:
    """Report how a training went: findings, figures, graphs and samples, on one page that works offline.

    LOG is what grpo watch reads: the output of a training with NeMo RL or verl, verl's file log, an event file of
    TensorBoard, a run-ID.wandb file, the directory of a run, or - for stdin. A directory also has samples. Up to four
    runs are shown side by side, with the differences of their figures. Logs of attempts that resumed one run are one
    run if they come one after the other: cat 1.log 2.log | grpo report - -o report.html

    Measures that a log does not have are named, and no graph shows them. The page needs the extra report
    (pip install 'grpo-charts[report]'); json and markdown do not.

    RUN with --namespace is a RayJob, and values files without a word name the RayJob that they make; kubectl reads its
    output.

    With the values files of the runs, -f, the signs are judged by the limits of their guard (job.guard.limits).
    """
    if not 1 <= len(words) <= _MOST and not (run.by_values and not words):
        path = click.get_current_context().command_path
        raise wrong(f"{len(words)} logs are given, expected 1 to {_MOST}", fix=f"{path} LOG -o report.html")
    if form == formats.HTML and output is None and is_watched(sys.stdout):
        raise wrong("a page is not for a terminal", fix="write it into a file with -o report.html")
    if output:
        _refuse_place(output, form)
    limits = judgement(options.with_profile(run.files, run.accelerator), run.arguments).limits
    runs = read_all(words or [""], limits, lambda word: Place(word, run).read(follow=False))
    text = formats.write(runs, form)
    if output:
        output_file.write(output, text.encode(), mark=formats.MARKS[form])
    else:
        sys.stdout.write(text)
    findings = [finding for each in runs for finding in each.findings]
    if output:
        steps = sum(len(each.steps) for each in runs)
        sys.stderr.write(f"{output}: {counted(steps, 'step')}, {counted(len(findings), 'finding')}\n")
    return EXIT_FINDINGS if is_at_least(findings, fail_on) else EXIT_CLEAN


def _refuse_place(output: str, form: str) -> None:
    """Raise OutputError for an unusable output path before the logs are read, which can take long."""
    suffix, known = os.path.splitext(output)[1].lower(), _SUFFIXES[form]
    if suffix and suffix not in known:
        other = next((each for each, suffixes in _SUFFIXES.items() if suffix in suffixes), "")
        fix = f"name a file that ends with {known[0]}" + (f", or give --format {other}" if other else "")
        raise OutputError(f"{output}: a report in the format {form} does not end with {suffix}", fix=fix)
    output_file.refuse(output, mark=formats.MARKS[form], inputs=options.inputs())
