"""Options of the commands that query a cluster, or read a bundle of evidence collected from one."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import click

from grpo import deadline
from grpo.cli import named_run, options
from grpo.cli.command import wrong
from grpo.cli.judging import explaining
from grpo.cluster.evidence import Evidence
from grpo.cluster.expected import Expected
from grpo.helm import engines
from grpo.live import bundle, client, collection, rendering, running
from grpo.live.client import Cluster
from grpo.values import set_arguments
from grpo.values.set_arguments import Argument
from postrender import output_file

USAGE = "-f FILE ... [OPTIONS]"


# Said when a kubeconfig's credential program takes long: it may wait for a person, so it is not stopped.
_LOGIN: Final = (
    "grpo: still waiting for the credential program that the kubeconfig starts (users[].user.exec), which may ask for "
    "a login, or for the API server. kubectl get pods must work first\n"
)


@dataclass
class Source:
    """Where evidence comes from: a cluster that is asked each time, or a bundle.

    `ask` gets the name of a RayJob where no values name the run. `is_named` if the options name a stack or a bundle,
    `has_namespace` if they name a namespace.
    """

    ask: Callable[[str], Evidence]
    is_live: bool
    is_named: bool = True
    has_namespace: bool = False


@contextlib.contextmanager
def _slow_login_said() -> Iterator[None]:
    """Say what the command is waiting for if the block takes longer than the cluster may take to answer."""
    timer = threading.Timer(deadline.PATIENCE, lambda: sys.stderr.write(_LOGIN))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def evidence_options(*, rights: bool = False, logs: bool = False, attempts: bool = False) -> options.Decorator:
    """Add the options of a stack, a cluster and a bundle to a command, which gets them as its parameter `source`.

    With `rights` the cluster is also asked what the user may install, with `logs` for the last lines of programs, which
    a bundle has always. With `attempts` it may be another attempt of the run. Nothing is read before the source is
    asked.
    """

    def add(function: Callable[..., int]) -> Callable[..., int]:
        command = _with_options(function, rights=rights, logs=logs)
        return named_run.attempt(command) if attempts else command

    return add


def _with_options(function: Callable[..., int], *, rights: bool, logs: bool) -> Callable[..., int]:
    @options.values()
    @options.set_values
    @options.accelerator
    @options.helm
    @options.namespace("Namespace of the releases. Default: that of the context.")
    @click.option("--context", metavar="NAME", help="Context of the kubeconfig. Default: the current one.")
    @click.option("--kubeconfig", type=options.FILE, metavar="FILE", help="Default: KUBECONFIG, or ~/.kube/config.")
    @click.option(
        "--bundle",
        "saved",
        type=options.OUTPUT,
        metavar="FILE",
        help="Also save what was read in FILE, a tar.gz without secrets.",
    )
    @click.option(
        "--from", "bundled", type=options.FILE, metavar="FILE", help="Read this bundle, not a cluster; needs no values."
    )
    @functools.wraps(function)
    def command(
        *,
        files: Sequence[str],
        arguments: Sequence[Argument],
        accelerator: str | None,
        helm: str | None,
        namespace: str | None,
        context: str | None,
        kubeconfig: str | None,
        saved: str | None,
        bundled: str | None,
        attempt: int | None = None,
        **others: object,
    ) -> int:
        values = bool(files or accelerator)
        if bundled:
            if values or arguments or attempt or others.get("run") or saved or context or kubeconfig or namespace:
                raise wrong(
                    "--from reads a bundle, which has run, values, namespace and context in it", fix="leave them out"
                )
            return function(source=Source(lambda _: bundle.read(bundled), is_live=False), **others)

        if (word := others.get("run")) and not values:
            named_run.refuse_of_values(str(word), attempt, arguments)
        connections = contextlib.ExitStack()
        another = [(set_arguments.SET, f"job.attempt={attempt}")] if attempt else []

        def connected() -> Cluster:
            with _slow_login_said():
                connection = client.connect(kubeconfig=kubeconfig, context=context, namespace=namespace)
                return connections.enter_context(connection)

        @functools.cache
        def wanted(run: str) -> tuple[Cluster, str, Callable[[], Expected]]:
            if run:
                found = running.expected(cluster := connected(), run)
                return cluster, found.name, lambda: found
            stack = options.stack(files, accelerator, [*arguments, *another])
            cluster = connected()

            @functools.cache
            def render() -> Expected:
                with engines.choose(helm) as engine, explaining(stack):
                    return rendering.render(stack, engine, cluster.namespace)

            return cluster, stack.name, render

        if saved:
            output_file.refuse(saved, mark=bundle.MARK, inputs=options.inputs())

        def ask(run: str) -> Evidence:
            if run and values:
                raise named_run.named_twice()
            until = functools.partial(deadline.after, time.monotonic())
            found = collection.collect(*wanted(run), rights=rights, with_logs=logs or bool(saved), deadline=until)
            if saved:
                listed = bundle.write(saved, found)
                sys.stderr.write(f"saved in {saved}: {', '.join(listed)}\n")
            return found

        named = bool(values or arguments or (saved and not namespace))
        with connections:
            return function(source=Source(ask, is_live=True, is_named=named, has_namespace=bool(namespace)), **others)

    return command
