"""Ask about the volume of a run: one of a cluster by its values files or its RayJob, or a directory here."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from grpo.cli import named_run, options
from grpo.cli.command import wrong
from grpo.helm import kubectl
from grpo.values import set_arguments
from grpo.values.set_arguments import Argument
from postrender import textfile
from postrender.errors import EXIT_CANNOT_RUN, EXIT_FINDINGS, UsageError
from postrender.values import merge

# Entries of a run's directory, of a folder of its steps, or of a folder of its samples.
_OF_A_RUN = re.compile(
    r"attempts|checkpoints|logs|owners|owner\.json|tasks|hf|evaluations|((tmp_|old_)?|global_)step_[0-9]+"
    r"|latest_checkpointed_iteration\.txt|exp_[0-9]+|(train_data_step)?[0-9]+\.jsonl|rollouts|rollout_data"
)
# The programs use the exit codes of `grpo`; Python also exits with 1 after an exception.
_BROKEN = "Traceback (most recent call last)"
USAGE = f"DIR | {named_run.USAGE} [OPTIONS]"


@dataclass(frozen=True)
class Run:
    """A run as given on the command line: `words` should be a single word, its name or its directory."""

    words: Sequence[str]
    files: Sequence[str]
    arguments: Sequence[Argument]
    accelerator: str | None
    namespace: str | None
    cluster: str | None
    show_commands: bool

    def place(self) -> tuple[str, kubectl.Head | None]:
        """Return the run's directory, and the pod that can read it unless it is on this machine.

        Raises UsageError if the arguments cannot mean a run.
        """
        path = click.get_current_context().command_path
        by_values = bool(self.files or self.accelerator)
        if len(self.words) != 1 and not (by_values and not self.words):
            raise wrong("one run is needed", fix=f"{path} -f FILE …, {path} RUN --namespace NAME, or {path} DIRECTORY")
        word = self.words[0] if self.words else ""
        if not by_values:
            named_run.refuse_of_values(word, None, self.arguments)
        if self.namespace and not by_values:
            plan, of_rayjob = named_run.find(word, self.namespace, self.cluster)
            return str(plan["runDirectory"]), of_rayjob
        if not by_values:
            if not os.path.isdir(word):
                fix = "give the values files of the run with -f, or a directory that is on this machine"
                raise wrong(f"{word!r} is not a directory here", fix=fix)
            if not _is_of_a_run(word):
                raise _no_run(path, word)
            return word, None
        merged = set_arguments.apply(merge.load(options.with_profile(self.files, self.accelerator)), self.arguments)
        word = word or str(merged.get("job.name") or "")
        if not word:
            raise wrong("the values name no run: job.name is not set", fix="add -f RECIPE.yaml, which sets it")
        if not options.is_name(word):
            raise wrong(f"the run is {word!r}, expected lower-case letters, digits and -, at most 63")
        head = kubectl.head(merged, word, namespace=self.namespace, cluster=self.cluster)
        return kubectl.run_directory(merged, word), head


def run_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the argument RUN and its options to a command, which receives them in its parameter `run`."""

    @click.argument("words", nargs=-1, metavar="", type=options.FILE)
    @options.values()
    @options.set_values
    @options.accelerator
    @options.namespace("Namespace of the cluster. Default: that of kubectl's context.")
    @named_run.cluster
    @click.option("--show-commands", is_flag=True, help="Print the command that asks the head pod; do not run it.")
    @functools.wraps(function)
    def command(
        *,
        words: Sequence[str],
        files: Sequence[str],
        arguments: Sequence[Argument],
        accelerator: str | None,
        namespace: str | None,
        cluster: str | None,
        show_commands: bool,
        **others: object,
    ) -> int:
        return function(run=Run(words, files, arguments, accelerator, namespace, cluster, show_commands), **others)

    return command


def _is_of_a_run(directory: str) -> bool:
    return any(_OF_A_RUN.fullmatch(name) for name in os.listdir(directory))


def _no_run(command: str, directory: str) -> UsageError:
    """Return the error for a directory that is not a run; suggest a run below it if there is one."""
    below = [entry for entry in os.scandir(directory) if entry.is_dir() and not entry.name.startswith(".")]
    inside = sorted(entry.path for entry in below if os.access(entry, os.R_OK))
    run = next((path for path in inside if _is_of_a_run(path)), "")
    return wrong(
        f"{directory!r} is not the directory of a run: it has no checkpoints and no logs",
        fix=f"{command} {run}" if run else "name the run directory, <mountPath>/runs/<job.name>",
    )


def ask(program: str, run: Run, arguments: Sequence[str]) -> kubectl.Outcome:
    """Run a program of jobs/ on a run's directory; return its output, and the command's exit code.

    With --show-commands, the output is the command line itself. Raises UsageError if the arguments cannot mean a run,
    and whatever `kubectl.run` raises.
    """
    directory, head = run.place()
    words = [directory, *arguments]
    if head is None:
        textfile.refuse_outside(directory)
    if run.show_commands:
        return kubectl.Outcome(0, f"{kubectl.shell(program, words, head)}\n", "")
    done = kubectl.run(program, words, head)
    broken = done.code > EXIT_CANNOT_RUN or (done.code == EXIT_FINDINGS and _BROKEN in done.errors)
    code = EXIT_CANNOT_RUN if broken or done.code < 0 else done.code
    return kubectl.Outcome(code, done.output, done.errors)
