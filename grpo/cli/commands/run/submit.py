"""The command `grpo submit`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence

import click

from grpo import deadline
from grpo.cli import options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.jobs import packing, submitted
from grpo.cli.jobs import run as jobs
from grpo.cli.jobs.request import Request
from grpo.cli.jobs.submitted import Submitted
from grpo.cli.watching import printing
from grpo.cli.watching.printing import tell
from grpo.helm.kubectl import Head
from grpo.helm.stack import Stack
from grpo.values.set_arguments import Argument
from postrender import secrets
from postrender.errors import EXIT_CLEAN, ClusterError, InputError

# So many of the files that are not sent are named.
_SHOWN = 20


@click.command(
    cls=Command,
    options_metavar="DIR -f FILE ... [OPTIONS] -- COMMAND ...",
    epilog=examples(
        "grpo submit my-code --accelerator b200 -f my-recipe.yaml -f my-site.yaml -- python train.py --lr 1e-6",
        "grpo submit . --accelerator b200 -f my-values.yaml -n rl --no-wait -- sh -c 'nvidia-smi > out; cat out'",
    ),
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="")
@options.values()
@options.set_values
@options.accelerator
@options.helm
@options.namespace("Namespace of the cluster. Default: that of kubectl's context.")
@click.option("--cluster", metavar="NAME", callback=options.kubernetes_name, help="Another RayCluster.")
@click.option("--no-wait", is_flag=True, help="Print the id of the job, and do not wait for its end.")
@click.option("--show-commands", is_flag=True, help="Print commands for doing it by hand; do not run them.")
def submit(
    words: Sequence[str],
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    helm: str | None,
    namespace: str | None,
    cluster: str | None,
    *,
    no_wait: bool,
    show_commands: bool,
) -> int:
    """Run a command in a working directory on a stack's cluster, as a separate job.

    DIR is sent to the head pod without the files that .gitignore and .rayignore exclude, at most 100 MiB. Links that
    lead out of DIR and files whose names mark them as secret (.env, .netrc, *.pem, .kube …) are listed but not sent,
    and a text file with a token in it is rejected. The command runs in a copy of DIR, with the settings of the values
    files' run: job.env, job.runtimeEnv, PYTHONPATH, the Hugging Face cache and token, and whatever else the pods have.
    It is not an attempt of the run: it owns no folder, and takes free GPUs. Ray's Jobs API is called from inside the
    head pod, with the pod's own token.

    The output is streamed, with secrets masked. Ctrl-C stops only the streaming, and prints how to stop the job.

    The exit code is the command's; 2 if Ray rejects the job, and 3 if the cluster does not answer.
    """
    directory, command = _words(words)
    began = time.monotonic()
    stack = options.stack(files, accelerator, arguments)
    _refuse_no_cluster(stack, cluster)
    run = jobs.render(stack, helm)
    head, request = run.head(namespace, cluster), Request.of(directory, command, run)
    if show_commands:
        sys.stdout.writelines(f"{line}\n" for line in request.by_hand(directory, head))
        return EXIT_CLEAN
    rendered = time.monotonic() - began
    package = packing.pack(directory)
    for each in package.left_out[:_SHOWN]:
        tell(f"not sent: {each}")
    if (more := len(package.left_out) - _SHOWN) > 0:
        tell(f"not sent: {more} more")
    # The cluster does not pay for the packing.
    submitted.reach(head, deadline.after(time.monotonic() - rendered))
    tell(f"sending {package.count} files, {len(package.content) / 1e6:.1f} MB packed, for job {request.id}")
    submitted.send(request.as_json(package.name), package.content, head)
    tell(f"submitted as job {request.id}")
    if no_wait:
        sys.stdout.write(f"{request.id}\n")
        _tell_more(request, head)
        return EXIT_CLEAN
    return _follow(request, head)


def _words(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the directory and the command; raise UsageError if either is missing, or if a word contains a token."""
    path = click.get_current_context().command_path
    if len(words) < 2:
        raise wrong("a directory and a command are needed", fix=f"{path} DIR -f FILE … -- COMMAND …")
    directory, *command = words
    if not os.path.isdir(directory):
        raise wrong(f"{directory!r} is not a directory here", fix=f"{path} DIR -f FILE … -- COMMAND …")
    if shape := secrets.shape_of(shlex.join(command)):
        fix = f"pods read it from {secrets.variable_of(shape)}: name its Secret under {secrets.place_of(shape)}"
        raise wrong(f"the command has a {shape} token in it, and Ray shows the commands of its jobs", fix=fix)
    return directory, command


def _refuse_no_cluster(stack: Stack, cluster: str | None) -> None:
    if stack.values.get("job.cluster.mode") == "ephemeral" and not cluster:
        raise InputError(
            "job.cluster.mode is ephemeral: the stack has no cluster of its own",
            fix="--cluster NAME names a RayCluster",
        )


def _follow(request: Request, head: Head) -> int:
    source = Submitted(request.id, head)
    try:
        printing.follow(source, wait=True)
    except (KeyboardInterrupt, ClusterError):
        tell(f"job {request.id} was not stopped")
        _tell_more(request, head)
        raise
    return source.exit_code


def _tell_more(request: Request, head: Head) -> None:
    tell(f"its output: {request.logs(head)}")
    tell(f"to stop it: {request.stop(head)}")
