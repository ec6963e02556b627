"""The command `grpo try-reward`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from grpo.cli import options, output
from grpo.cli.command import Command, examples
from grpo.cli.judging import refuse_secrets
from grpo.lint.linter import described_run
from grpo.problems.data.values_chosen import own_training_data
from grpo.rewards import framework, prompts, rows, samples, trial
from grpo.rewards.files import RewardFiles
from grpo.rewards.prompts import Prompt
from grpo.rewards.samples import Sample
from grpo.rewards.scored import Scored
from grpo.rewards.trial import Trial
from grpo.values.set_arguments import Argument
from postrender import masking, visible
from postrender.counting import counted
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS, InputError

_SECONDS = 60.0
# Of many rows, so many samples are in the table.
_FEW, _MANY = 12, 24
_OF_ROW = "the column prompt of its row"


@click.command(
    "try-reward",
    cls=Command,
    options_metavar="-f FILE ... [OPTIONS]",
    epilog=examples(
        "grpo try-reward --accelerator b200 -f my-recipe.yaml -f my-rewards.yaml",
        "grpo try-reward -f my-values.yaml --set-file job.rewards.polite.file=polite.py",
        "grpo try-reward -f my-values.yaml --sample answers.jsonl --format json",
        "grpo try-reward -f my-values.yaml --data train=train.jsonl",
    ),
)
@options.values()
@options.set_values
@options.accelerator
@click.option(
    "--sample",
    type=options.FILE,
    metavar="FILE",
    help="Score these answers: JSON lines with prompt, ground_truth and response, maybe data_source and extra_info.",
)
@options.data(
    "Give the rewards what the first 100 rows of this file of the run's data expect: train=FILE or validation=FILE."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True, max=3600),
    default=_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Stop the rewards after this time.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME",
    help="Give this variable of yours to the rewards. They get PATH, HOME, LANG, LC_*, PYTHON*, CUDA_* and the like.",
)
@options.output_format("text", "json")
def try_reward(
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    sample: str | None,
    data: Sequence[tuple[str, str]],
    timeout: float,
    variables: Sequence[str],
    form: str,
) -> int:
    """Score sample answers with the rewards of a run.

    The command loads job.rewards and the prompt as the run does, and prints the rendered prompt of the first sample,
    the score of each reward, their weighted sum, and the possible range. Without --sample it scores a right, a wrong,
    an empty and a badly formed answer to a small question of GSM8K. With --data it scores answers to each of the first
    rows of a file of the run's data: the one that the row expects, in the format that its prompt asks for, that of
    another row, and an empty one. Where the first two have the same score, it warns.

    The rewards run on this machine with your rights, in a process of their own that ends after --timeout, with all
    that it has started. Of your variables they get those without which no program runs, and those of --env. Read the
    code of others first. Rewards that import libraries of the image need them here too.

    The exit code is 1 if a reward cannot be loaded, raises an exception, or does not end. An exception for an answer
    to GSM8K's question is a warning where the run trains on data of your own. Without job.rewards the
    command says which reward the framework uses.
    """
    stack = options.stack(files, accelerator, arguments)
    refuse_secrets(stack)
    run = described_run(stack.values)
    if run is None:
        fix = "give all files of the stack: accelerator profile, recipe and your own"
        raise InputError("the values describe no run of a known framework and version", fix=fix)
    given = RewardFiles(stack.values, arguments)
    if not given.entries:
        return _tell_own(framework.described(run), form)
    prompt = prompts.of(stack.values, run)
    text = prompt.template or ""
    if sample or data:
        answers = samples.read(sample) if sample else []
        for role, file in data:
            answers += samples.of_rows(run, role, file, given, partial(prompts.asking, prompt, values=stack.values))
    else:
        answers = samples.builtin(given.entries, text)
    source = framework.data_source(run)
    answers = [each if each.data_source is not None else each._replace(data_source=source) for each in answers]
    rendered = prompts.rendered(prompt, answers[0].prompt, stack.values)
    if rendered is None and answers[0].row and run.framework == "verl":
        prompt, rendered = prompt._replace(source=_OF_ROW), answers[0].prompt
    # The output of rewards comes from another process.
    sys.stderr.flush()
    tried = trial.score(given, answers, timeout, variables)
    if not (sample or data):
        tried = tried._replace(foreign=own_training_data(run))
    if form == "json":
        _write_json(_record(tried, prompt, rendered))
    else:
        _write_text(tried, prompt, rendered)
    return EXIT_FINDINGS if [*tried.problems()] else EXIT_CLEAN


def _tell_own(text: str, form: str) -> int:
    if form == "json":
        _write_json({"rewards": [], "framework_reward": text})
    else:
        sys.stdout.write(f"job.rewards is empty, so there is nothing to try: {text}.\n")
    return EXIT_CLEAN


def _record(tried: Trial, prompt: Prompt, rendered: str | None) -> dict[str, Any]:
    scored = [
        {**_asked(each.sample), "score": each.score, "correct": each.correct, "parts": each.parts}
        for each in tried.scored
    ]
    return {
        "prompt": {"source": prompt.source, "first": rendered},
        "rewards": tried.rewards,
        "bounds": tried.bounds,
        "samples": scored,
        "problems": [*tried.problems()],
        "warnings": [*tried.warnings()],
        "unjudged": tried.unjudged(),
    }


def _asked(sample: Sample) -> dict[str, Any]:
    return {**sample._asdict(), "row": sample.row.row if sample.row else None}


def _write_json(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(masking.clean(record), indent=2, ensure_ascii=False) + "\n")


def _write_text(tried: Trial, prompt: Prompt, rendered: str | None) -> None:
    """Print the prompt, the table of scores, the range, and any problems."""
    shown = "".join(f"  {line}\n" for line in rendered.splitlines()) if rendered is not None else ""
    output.write(f"prompt of the first sample: {prompt.source}\n{shown}\n")
    names = [each["name"] for each in tried.rewards]
    # Answers of one's own, and those of the question of GSM8K, are known.
    headings = [
        "sample",
        *(["answer"] if tried.is_of_rows else []),
        *(f"{each['name']} × {each['weight']:g}" for each in tried.rewards),
        "score",
        "correct",
    ]
    table = [
        [
            each.sample.name,
            *([rows.shown(each.sample.response)] if tried.is_of_rows else []),
            *(f"{each.parts[name]:g}" for name in names),
            f"{each.score:g}",
            "yes" if each.correct else "no",
        ]
        for each in _shown(tried)
    ]
    below = _below(tried)
    if table:
        output.write_table(headings, table, lambda: _aligned([headings, *table]) + below, below)
    else:
        output.write(below)


def _shown(tried: Trial) -> list[Scored]:
    """Return the samples for the table: if there are many rows, the first ones and those on which a reward fails."""
    return [each for at, each in enumerate(tried.scored) if each.sample.row is None or at < _FEW or each.failures][
        :_MANY
    ]


def _below(tried: Trial) -> str:
    bounds = tried.bounds
    span = f"{bounds[0]:g} to {bounds[1]:g}" if bounds else "unknown: a file has no BOUNDS"
    lines = [f"possible score: {span}"] if tried.scored else []
    if left := len(tried.scored) - len(_shown(tried)):
        lines.insert(0, f"and {counted(left, 'other sample')}")
    lines += [f"warning: {text}" for text in tried.warnings()]
    lines += [f"error: {text}" for text in tried.problems()]
    lines += [f"not judged: {text}" for text in [tried.unjudged()] if text]
    return masking.text(visible.lines(lines))


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )
