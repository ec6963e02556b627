"""The command `grpo doctor`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

import click

from grpo.cli import live, options, output
from grpo.cli.command import Command, examples
from grpo.cli.live import Source
from grpo.cluster.expected import Expected
from grpo.live import examination
from grpo.problems.models import probe as access
from grpo.problems.probe import FAILED, NOT_CHECKED, PASSED, WARNED, Result
from postrender import masking
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS
from postrender.problem import Problem

_STATES = (FAILED, WARNED, NOT_CHECKED, PASSED)
# Not asked of the API server.
_ELSEWHERE = (
    "not checked here: the files that the installer leaves on the nodes (the init container check-node looks at them), "
    "the health of GPUs and links (NVIDIA's aicr and NVSentinel), access to Hugging Face from the pods"
)


@click.command(
    cls=Command,
    options_metavar=live.USAGE,
    epilog=examples(
        "grpo doctor --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo doctor --accelerator b200 -f my-values.yaml -n rl --show-commands",
        "grpo doctor --accelerator b200 -f my-values.yaml --format json",
    ),
)
@live.evidence_options(rights=True)
@click.option("--show-commands", is_flag=True, help="Print with each result the command that shows it.")
@click.option("--hugging-face", is_flag=True, help="Also ask the hub for the model, with the token of HF_TOKEN.")
@options.output_format("text", "json")
def doctor(source: Source, form: str, *, show_commands: bool, hugging_face: bool) -> int:
    """Check whether the cluster has what a stack needs, before the stack is installed.

    It checks your rights, the operator and its kinds, nodes and their free capacity, networks and device classes,
    Secrets and their keys, volumes and their drivers, quotas, limits, Pod Security and queues. Each result is pass,
    warn, fail or not checked, with the value behind it. Nothing is changed; values of Secrets are not read.

    The exit code is 1 if a check has failed, else 0; warnings and skipped checks are listed but do not fail the
    command.
    """
    evidence = source.ask("")
    if hugging_face:
        evidence.objects["hub"] = [access.ask(value, model) for value, model in evidence.expected.models.items()]
    results = list(examination.examine(evidence))
    if form == "json":
        rows = [
            {"check": each.id, **asdict(result), "at": evidence.expected.place(result.value)}
            for each, result in results
        ]
        sys.stdout.write(json.dumps(masking.clean(rows), indent=2) + "\n")
    else:
        output.write_lines(_lines(results, evidence.expected, show_commands=show_commands))
    return EXIT_CLEAN if examination.is_healthy(results) else EXIT_FINDINGS


def _lines(results: list[tuple[Problem, Result]], expected: Expected, *, show_commands: bool) -> Iterator[str]:
    """Yield the failures, then the warnings, the skipped checks, the passed checks, and a count."""
    for state in _STATES:
        for check, result in results:
            if result.state != state:
                continue
            yield f"{state:11}  {check.id}: {result.text}"
            if state in (FAILED, WARNED) and (place := expected.place(result.value)):
                yield f"{'':11}  value: {place} {result.value}"
            if result.fix:
                yield f"{'':11}  fix: {result.fix}"
            if show_commands and result.command:
                yield f"{'':11}  by hand: {result.command}"
    counts = {state: sum(result.state == state for _, result in results) for state in _STATES}
    yield ", ".join(f"{count} {state}" for state, count in counts.items() if count or state != WARNED)
    yield _ELSEWHERE
