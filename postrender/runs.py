"""Ask about a run: one of a cluster by its name and values files, or a directory on this machine."""

from __future__ import annotations

import os
import re
import sys

from postrender import incluster, usage
from postrender.errors import EXIT_CANNOT_RUN, EXIT_CLEAN, EXIT_FINDINGS, UsageError
from postrender.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# What each command that asks about a run takes, beside its own options.
WITH_VALUE = ("accelerator", "namespace", "cluster")
FLAGS = ("show-commands",)
# They become parts of a path and of kubectl's selector.
_NAME = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# What lies in the directory of a run, in a folder of its steps, or in one of its samples.
_OF_A_RUN = re.compile(
    r"attempts|checkpoints|logs|owners|owner\.json|tasks|hf|evaluations|((tmp_|old_)?|global_)step_[0-9]+"
    r"|latest_checkpointed_iteration\.txt|exp_[0-9]+|(train_data_step)?[0-9]+\.jsonl|rollouts|rollout_data"
)
# The programs end with the codes of `grpo`; Python ends with 1 too, where a program has a mistake.
_BROKEN = "Traceback (most recent call last)"


def _place(options: Options) -> tuple[str, incluster.Head | None]:
    """Return the directory of the run, and the pod that sees it unless it is on this machine."""
    if len(options.words) != 1:
        raise UsageError(
            f"{options.command}: one run is needed",
            fix=f"{options.command} RUN -f FILE …, or {options.command} DIRECTORY",
        )
    (word,) = options.words
    files, accelerator = options.all("values"), options.last("accelerator")
    if not files and not accelerator:
        if not os.path.isdir(word):
            fix = "give the values files of the run with -f, or a directory that is on this machine"
            raise UsageError(f"{options.command}: {word!r} is no directory here", fix=fix)
        if not _is_of_a_run(word):
            raise _no_run(options.command, word)
        return word, None
    from postrender import paths, values

    for what, name in (("run", word), *((name, options.last(name)) for name in ("namespace", "cluster"))):
        if name is not None and not _NAME.fullmatch(name):
            raise options.wrong(f"the {what} is {name!r}, expected lower-case letters, digits and -, at most 63")
    merged = values.load([*([paths.accelerator(accelerator)] if accelerator else []), *files])
    head = incluster.head(merged, word, namespace=options.last("namespace"), cluster=options.last("cluster"))
    return incluster.run_directory(merged, word), head


def _is_of_a_run(directory: str) -> bool:
    return any(_OF_A_RUN.fullmatch(name) for name in os.listdir(directory))


def _no_run(command: str, directory: str) -> UsageError:
    """Return the refusal of a directory that is none of a run; where runs lie in it, one of them is the hint."""
    below = [entry for entry in os.scandir(directory) if entry.is_dir() and not entry.name.startswith(".")]
    inside = sorted(entry.path for entry in below if os.access(entry, os.R_OK))
    run = next((path for path in inside if _is_of_a_run(path)), "")
    return UsageError(
        f"{command}: {directory!r} is no directory of a run: no checkpoints, no logs",
        fix=f"{command} {run}" if run else "name the run directory, <mountPath>/runs/<job.name>",
    )


def ask(program: str, options: Options, arguments: Sequence[str]) -> int:
    """Run a program of jobs/ on the directory of a run and print what it prints; return the exit code of the command.

    Raises UsageError where the run cannot be meant, and what incluster raises.
    """
    directory, head = _place(options)
    words = [directory, *arguments]
    if options.has("show-commands"):
        print(incluster.shell(program, words, head))
        return EXIT_CLEAN
    done = incluster.run(program, words, head)
    sys.stdout.write(done.output)
    sys.stderr.write(done.errors)
    broken = done.code > EXIT_CANNOT_RUN or (done.code == EXIT_FINDINGS and _BROKEN in done.errors)
    return EXIT_CANNOT_RUN if broken or done.code < 0 else done.code


def checkpoints(argv: Sequence[str]) -> int:
    """Run `grpo checkpoints`; return its exit code. Raises as `samples` does."""
    own = ("metric", "framework", "format")
    options = Options("checkpoints", argv, with_value=(*WITH_VALUE, *own), flags=FLAGS)
    if options.has("help"):
        sys.stdout.write(usage.CHECKPOINTS_HELP)
        return EXIT_CLEAN
    arguments = ["--json"] if options.choice("format", ("text", "json")) == "json" else []
    if metric := options.last("metric"):
        arguments += ["--metric", metric]
    if options.has("framework"):
        arguments += ["--framework", options.choice("framework", ("nemo-rl", "verl"))]
    return ask("checkpoints", options, arguments)


def samples(argv: Sequence[str]) -> int:
    """Run `grpo samples`; return its exit code. Raises UsageError for a wrong command line, and what `ask` raises."""
    own = ("step", "count", "format")
    options = Options("samples", argv, with_value=(*WITH_VALUE, *own), flags=(*FLAGS, "worst", "best"))
    if options.has("help"):
        sys.stdout.write(usage.SAMPLES_HELP)
        return EXIT_CLEAN
    arguments = ["--json"] if options.choice("format", ("text", "json")) == "json" else []
    if options.has("worst") and options.has("best"):
        raise options.wrong("--worst and --best exclude each other")
    arguments += [f"--{name}" for name in ("worst", "best") if options.has(name)]
    for name in ("step", "count"):
        value = options.last(name)
        if value is not None and not (value.isdecimal() and int(value)):
            raise options.wrong(f"--{name} is {value!r}, expected a number from 1")
        arguments += [f"--{name}", value] if value else []
    return ask("samples", options, arguments)
