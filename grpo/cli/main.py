"""The program `grpo`: find the command, run it, and turn every error into a message and an exit code."""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil
import sys
import threading
from typing import NoReturn

import click
from click.shell_completion import shell_complete

from grpo.cli import commands, output
from grpo.cli.command import CommandGroup, from_click
from postrender import textfile, visible
from postrender.errors import EXIT_CANNOT_RUN, EXIT_CLEAN, EXIT_INTERRUPTED, EXIT_UNREAD, NO_MEMORY, GrpoError

_COMPLETE = "_GRPO_COMPLETE"
_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_END_OF_HELP = """\
\b
See "grpo COMMAND --help" for the options of a command.

\b
Exit codes: 0 no errors, 1 errors (or warnings with --fail-on warning), 2 wrong command line or input,
3 could not run (no such file, no Helm), 141 nobody read the output.

\b
To complete commands, options and values with the Tab key, add one line to the start-up file of your shell:
  bash  ~/.bashrc                   eval "$(_GRPO_COMPLETE=bash_source grpo)"
  zsh   ~/.zshrc                    eval "$(_GRPO_COMPLETE=zsh_source grpo)"
  fish  ~/.config/fish/config.fish  _GRPO_COMPLETE=fish_source grpo | source
"""


# What the commands of each package are for.
_HEADINGS = {
    "stack": "Write and render a stack",
    "judge": "Before the run: will it run, does it fit, what does it cost",
    "cluster": "In the cluster: what is there, what waits, and why",
    "run": "During and after the run: is it alive, does it learn, why did it stop",
    "commands": "Other",
}


class Commands(CommandGroup):
    """Find each command in a module below `grpo.cli.commands`, and import the module when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted(_modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None if no command has this name."""
        module = _modules().get(cmd_name)
        if module is None:
            return None
        found = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their package's heading, in the order in which users need them."""
        modules = _modules()
        for package, heading in _HEADINGS.items():
            found = [name for name, module in modules.items() if module.split(".")[-2] == package]
            rows = [(name, self._summary(ctx, name)) for name in sorted(found)]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        # click cuts a sentence that is longer than a line.
        return command.get_short_help_str(limit=1000) if command else ""


def _modules() -> dict[str, str]:
    """Return the command modules by command name."""
    found = pkgutil.walk_packages(commands.__path__, f"{commands.__name__}.")
    return {each.name.rpartition(".")[2].replace("_", "-"): each.name for each in found if not each.ispkg}


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    subcommand_metavar="COMMAND ...",
    options_metavar="",
    epilog=_END_OF_HELP,
)
def grpo() -> None:
    """Check, render, watch and explain GRPO training stacks on Kubernetes."""


def _run(words: list[str]) -> int:
    """Run one command and return its exit code; raise OSError if a stream cannot be written."""
    if instruction := os.environ.get(_COMPLETE):
        return shell_complete(grpo, {}, "grpo", _COMPLETE, instruction)
    try:
        with grpo.make_context("grpo", _as_click_has_them(words)) as context:
            return int(grpo.invoke(context) or EXIT_CLEAN)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        output.complain(from_click(error))
        return from_click(error).exit_code
    except GrpoError as error:
        output.complain(error)
        return error.exit_code
    except MemoryError:
        sys.stderr.write(f"grpo: {NO_MEMORY}\n")
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _as_click_has_them(words: list[str]) -> list[str]:
    """Translate `grpo`, `grpo help COMMAND` and `grpo --version` to the forms that click understands."""
    match words:
        case []:
            return ["--help"]
        case ["help", *rest]:
            return [*rest, "--help"]
        case ["--version", *rest]:
            return ["version", *rest]
    return words


def _cannot_write(error: OSError) -> int:
    output.give_up(sys.stdout)
    what = "the output cannot be written" if error.errno in _OF_OUTPUT else "could not run"
    try:
        sys.stderr.write(f"grpo: {what}: {error.strerror}\n")
        sys.stderr.flush()
    except OSError:
        output.give_up(sys.stderr)
    return EXIT_CANNOT_RUN


def main(words: list[str] | None = None) -> int:
    """Run `grpo`; return the exit code of the command, or of the error that ended it."""
    # A stream is None if the shell has closed it (>&-).
    if sys.stderr is None:
        return EXIT_CANNOT_RUN
    if sys.stdout is None:
        sys.stderr.write("grpo: cannot write: stdout is closed\n")
        return EXIT_CANNOT_RUN
    for stream in (sys.stdout, sys.stderr):
        # Manifests are UTF-8 whatever the locale is.
        getattr(stream, "reconfigure", lambda **_: None)(encoding="utf-8", errors="backslashreplace")
    textfile.forget()
    with visible.streams():
        return _written(sys.argv[1:] if words is None else words)


def _written(words: list[str]) -> int:
    """Run one command, write its output, and return its exit code."""
    code = EXIT_UNREAD
    try:
        code = _run(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as with `grpo render | head`; what the command found by then counts.
        output.give_up(sys.stdout)
    except OSError as error:
        return _cannot_write(error)
    return code


def program() -> NoReturn:
    """Run `grpo` as a program, and exit at once if requests to the cluster are still pending.

    On a normal exit, Python kills their threads, and a library in the middle of a call may then abort the process.
    """
    code = main()
    if threading.active_count() > 1:
        os._exit(code)
    sys.exit(code)
