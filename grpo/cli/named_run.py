"""The two ways to name a run of a cluster: the values files that it is made of, or its RayJob and a namespace."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from grpo.cli import options
from grpo.cli.command import wrong
from grpo.cli.jobs import run as jobs
from grpo.cli.watching import head_pod
from grpo.cli.watching.rayjob import Kept, RayJob
from grpo.cluster.objects import cluster_of
from grpo.deadline import Deadline
from grpo.helm import kubectl
from grpo.manifests import entrypoint
from grpo.values.set_arguments import Argument
from postrender.errors import InputError, UsageError

USAGE: Final = f"-f FILE ... | {options.RUN}"

cluster = click.option(
    "--cluster",
    metavar="NAME",
    callback=options.kubernetes_name,
    help="Another RayCluster that mounts the volume of the run.",
)
attempt = click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Attempt of the run. Default: job.attempt."
)


@dataclass(frozen=True)
class Named:
    """What the options of a command line say about a run."""

    files: Sequence[str]
    arguments: Sequence[Argument]
    accelerator: str | None
    helm: str | None
    namespace: str | None
    cluster: str | None
    attempt: int | None

    @property
    def by_values(self) -> bool:
        """Return whether values files are given."""
        return bool(self.files or self.accelerator)

    def rendered(self) -> jobs.Run:
        """Return what the charts make of the run; raise as `jobs.render` does."""
        return jobs.render(options.stack(self.files, self.accelerator, self.arguments), self.helm, self.attempt)

    def of_values(self, deadline: Callable[[], Deadline] = Deadline) -> RayJob:
        """Return where the output of the run of the values is, also when its RayJob is gone; raise as `rendered`."""
        run = self.rendered()
        kept = Kept(run.directory, run.head(self.namespace, self.cluster).labels)
        return RayJob(run.name, self.namespace or kubectl.namespace(), self.cluster, kept, deadline())

    def of_name(self, name: str) -> RayJob:
        """Return where the output of a RayJob is; raise UsageError for a word that is no name."""
        refuse_no_name(name)
        return RayJob(name, self.namespace or kubectl.namespace(), self.cluster)

    def refuse_of_values(self, word: str) -> None:
        """Raise UsageError for options of this command line as the function of the same name does."""
        refuse_of_values(word, self.attempt, () if self.by_values else self.arguments)


def refuse_of_values(word: str, attempt: int | None, arguments: Sequence[Argument]) -> None:
    """Raise UsageError for options that only say more of values files, where a word names the run or its output."""
    given = ["--attempt"] if attempt else [flag for flag, _ in arguments]
    if given:
        message = f"{given[0]} is given, but {word!r} is read without values files"
        raise wrong(message, fix=f"leave out {given[0]}, or name the run by its values files, with -f")


def named_twice() -> UsageError:
    """Return the error for a name beside values files."""
    return wrong("a run is named twice", fix="give its values files with -f, or its name with --namespace")


def run_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options that name a run to a command, which gets them as its parameter `run`."""

    @options.values()
    @options.set_values
    @options.accelerator
    @options.helm
    @options.namespace(
        "Namespace of the run. With it, a word is the name of a RayJob. Default: that of kubectl's context."
    )
    @cluster
    @attempt
    @functools.wraps(function)
    def command(
        *,
        files: Sequence[str],
        arguments: Sequence[Argument],
        accelerator: str | None,
        helm: str | None,
        namespace: str | None,
        cluster: str | None,
        attempt: int | None,
        **others: object,
    ) -> int:
        run = Named(files, arguments, accelerator, helm, namespace, cluster, attempt)
        return function(run=run, **others)

    return command


def refuse_no_name(word: str) -> None:
    """Raise UsageError for what cannot be the name of a RayJob."""
    if not options.is_name(word):
        message = f"the RayJob is {word!r}, expected lower-case letters, digits and -, at most 63"
        place = "the standard input" if word == "-" else f"the file {word}" if os.path.exists(word) else ""
        raise wrong(message, fix=f"leave out --namespace to read {place}" if place else "")


def find(name: str, namespace: str | None, cluster: str | None) -> tuple[Mapping[str, Any], kubectl.Head]:
    """Return the plan of a RayJob of the cluster, and the head pod that mounts its volume.

    Raises UsageError for what is no name, InputError if there is no such RayJob or none of ours, and ClusterError.
    """
    refuse_no_name(name)
    where = namespace or kubectl.namespace()
    try:
        item = head_pod.ask(f"/apis/ray.io/v1/namespaces/{where}/rayjobs/{name}", Deadline())
    except kubectl.FailedError as error:
        if not error.is_of_missing:
            raise
        raise kubectl.no_rayjob(name, where) from error
    plan = entrypoint.plan(item)
    if "runDirectory" not in plan:
        fix = "give the values files of the run with -f, or its directory where it is mounted"
        raise InputError(f"the RayJob {name} is none of the chart grpo-job, so its directory is not known", fix=fix)
    own = cluster or cluster_of(item)
    if not own:
        fix = "wait until KubeRay has made one; --cluster NAME names another one that mounts the volume of the run"
        raise InputError(f"the RayJob {name} has no RayCluster yet", fix=fix)
    return plan, kubectl.Head(f"ray.io/cluster={own},ray.io/node-type=head", where)
