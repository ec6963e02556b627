"""Base classes for the commands of `grpo`, and the errors for a wrong command line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

import click

from postrender import spelling
from postrender.errors import UsageError

# How the names of these files end.
_OF_BUNDLES: Final = (".tar.gz", ".tgz", ".tar")
_OF_VALUES: Final = (".yaml", ".yml", ".json")


class _Named(click.Command):
    """Name the command in every command-line error; some of click's errors do not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


class Command(_Named):
    """Report a surplus argument, with a suggestion."""

    # click's own message has no suggestion, so surplus words are handled here.
    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does; raise UsageError if there is a surplus argument."""
        surplus = super().parse_args(ctx, args)
        if surplus and not ctx.resilient_parsing:
            raise wrong(f"{surplus[0]!r} was not expected", fix=self._fix(ctx, surplus[0]))
        return surplus

    def _fix(self, ctx: click.Context, word: str) -> str:
        """Return where a surplus argument belongs, or else how many arguments are allowed; empty if none are."""
        names = [each.name for each in self.params if isinstance(each, click.Argument)]
        return self.option_of(word) or (f"{ctx.command_path} takes one {names[0]}" if names else "")

    def option_of(self, word: str) -> str:
        """Return with which option a file is given; empty if it looks like no file that the command takes."""
        options = {name for each in self.params for name in each.opts}
        if "--from" in options and word.endswith(_OF_BUNDLES):
            return f"read a bundle with --from {word}"
        if "-f" in options and word.endswith(_OF_VALUES):
            return f"give a values file with -f {word}"
        return ""


class CommandGroup(_Named, click.Group):
    """Suggest the closest command for an unknown one."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; raise UsageError if the command is unknown."""
        names = self.list_commands(ctx)
        if args[0] in names or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        close = difflib.get_close_matches(args[0], names, n=1, cutoff=0.5)
        fix = f"did you mean {ctx.command_path} {close[0]}?" if close else f"the commands are {', '.join(names)}"
        raise wrong(f"no command is called {args[0]!r}", fix=fix)


def examples(*lines: str) -> str:
    """Return the examples in a command's help as a block that click does not wrap, so that they can be pasted."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def wrong(message: str, *, near: str = "", known: Sequence[str] = (), fix: str = "") -> UsageError:
    """Return the error for a wrong command line, for the command that is running.

    The fix suggests the word of `known` closest to `near`. If no word is close, the fix is `fix`, or else a pointer to
    the help.
    """
    path = click.get_current_context().command_path
    if close := spelling.near(near, known):
        fix = f"did you mean {close[0]}?"
    return UsageError(f"{path}: {message}", fix=fix or f"see {path} --help")


def surplus(word: str) -> UsageError:
    """Return the error for a word that the command that runs cannot take."""
    command = click.get_current_context().command
    fix = command.option_of(word) if isinstance(command, Command) else ""
    return wrong(f"{word!r} was not expected", fix=fix)


def from_click(error: click.UsageError) -> UsageError:
    """Convert click's error, so that all errors look the same and suggest a fix."""
    path = error.ctx.command_path if error.ctx else "grpo"
    message, fix = error.format_message().rstrip("."), f"see {path} --help"
    message = message[:1].lower() + message[1:]
    group = error.ctx.command if error.ctx else None
    if message == "missing command" and error.ctx and isinstance(group, click.Group):
        fix = f"the commands are {', '.join(group.list_commands(error.ctx))}; {fix}"
    if isinstance(error, click.NoSuchOption):
        message = f"no option is called {error.option_name}"
        if not error.option_name.startswith("--"):
            message = f"{error.option_name} is not an option"
        else:
            # The dashes alone make short names alike.
            names = [each.removeprefix("--") for each in error.possibilities or ()]
            close = difflib.get_close_matches(error.option_name[2:], names)
            fix = f"did you mean --{close[0]}?" if close else fix
    elif isinstance(error, click.BadOptionUsage):
        message = f"{error.option_name} {'needs a value' if 'requires' in error.message else 'takes no value'}"
    return UsageError(f"{path}: {message}", fix=fix)
