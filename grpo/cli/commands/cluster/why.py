"""The command `grpo why`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import chain
from typing import IO, Final

import click

from grpo.cli import live, named_run, options, output
from grpo.cli.command import Command, examples, wrong
from grpo.cli.live import Source
from grpo.live.why import diagnosis, log_reader
from grpo.live.why.diagnosis import Diagnosis
from grpo.runlog import directory, forms
from postrender import textfile
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS, InputError, Location, UnreadableError

_STDIN: Final = "standard input"


@click.command(
    cls=Command,
    options_metavar=f"LOG | {named_run.USAGE} [OPTIONS]",
    epilog=examples(
        "grpo why --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml -n rl",
        "grpo why gemma3-gsm8k-1 -n rl",
        "grpo why output.log",
        "kubectl logs my-job | grpo why -",
        "grpo why --from evidence.tar.gz --format json",
    ),
)
@click.argument("run", required=False, type=options.FILE, metavar="")
@live.evidence_options(logs=True, attempts=True)
@options.output_format("text", "json")
def why(source: Source, run: str | None, form: str) -> int:
    """Say why a run does not go on or has ended, with the lines that show it.

    With the values of a stack it reads what the cluster says: pods, nodes, events, the RayJob, and the last lines
    of the driver, of containers that have ended and of the operator. With --namespace and RUN, the name of a
    RayJob, it reads the same, and knows no values. With LOG it reads the log of any training, or in the directory
    of a run the output of its last attempt; - is the standard input.

    Causes are ranked: roots before symptoms, symptoms before consequences, then the first in time. Each has its
    evidence, the value behind it, what to do, and what another start would do. Nothing is changed.

    The exit code is 0 if the run goes on or a log shows nothing, else 1.
    """
    if run is not None and source.is_named:
        raise wrong("a log and a stack are given", fix="give LOG alone, or values files or --from")
    if run is not None and source.has_namespace:
        named_run.refuse_no_name(run)
        found = diagnosis.of_evidence(source.ask(run))
    elif run is not None:
        found = _of_log(run)
    elif not source.is_named:
        raise wrong(
            "nothing is named",
            fix="name a log, a RayJob with --namespace, a bundle with --from, or values files with -f",
        )
    else:
        found = diagnosis.of_evidence(source.ask(""))
    if form == "json":
        sys.stdout.write(json.dumps(found.as_json(), indent=2) + "\n")
    else:
        output.write_lines(found.lines())
    return EXIT_FINDINGS if found.is_healthy is False else EXIT_CLEAN


def _of_log(path: str) -> Diagnosis:
    if path == "-":
        return diagnosis.of_log(_pieces(sys.stdin.buffer, _STDIN), _STDIN)
    textfile.refuse_outside(path)
    if os.path.isdir(path):
        path = _last_output(path)
    try:
        with open(path, "rb") as file:
            return diagnosis.of_log(_pieces(file, path), path)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path), fix="check the path") from error


def _last_output(folder: str) -> str:
    """Return the output of the last attempt in a run's directory; raise UnreadableError if there is none."""
    if not (outputs := directory.outputs(folder)):
        fix = "name a log, or <mountPath>/runs/NAME"
        raise UnreadableError("the directory has no attempts/N/output.log", at=Location(folder), fix=fix)
    return outputs[-1]


def _pieces(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Return a log in pieces; raise InputError if the log is empty or not text."""
    pieces = log_reader.pieces(file)
    head = next(pieces, b"")
    if not head.strip():
        raise InputError(
            "the log is empty", at=Location(name), fix="name the output of a training: grpo logs prints it"
        )
    forms.of_text(head[: forms.HEAD_BYTES], name)
    return chain([head], pieces)
