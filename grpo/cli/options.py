"""Options shared by several commands, and the types of their values."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import click

from grpo.cli.command import wrong
from grpo.helm.stack import Stack
from grpo.lint.data.samples import ROLES
from grpo.values import machine_names, set_arguments
from grpo.values.set_arguments import Argument
from postrender import paths

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]
Complete = Callable[[click.Context, click.Parameter, str], list[Any]]

# The code that reads a file reports a missing or unreadable one, with a fix.
FILE = click.Path(readable=False)
OUTPUT = click.Path(readable=False)
_VERSION = re.compile(r"v?\d+\.\d+(\.\d+)?([-+][\w.+-]*)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def is_name(text: str) -> bool:
    """Return whether a text can be the name of an object, a namespace or a release."""
    return _NAME.fullmatch(text) is not None


def inputs() -> list[str]:
    """Return the files named by the current command's options and arguments, except the files that it writes."""
    context = click.get_current_context()
    given = [context.params.get(each.name or "") for each in context.command.params if each.type is FILE]
    return [path for each in given for path in ([each] if isinstance(each, str) else each or ())]


def called(param: click.Parameter) -> str:
    """Return an option's long name, as users write it."""
    return max(param.opts, key=len)


def kubernetes_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Reject a name that Kubernetes and Helm reject; the embedded Helm would render any text."""
    if value is not None and not is_name(value):
        raise wrong(f"{called(param)} is {value!r}, expected lower-case letters, digits and -, at most 63")
    return value


def completing(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a function that completes one of the names in a shell."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def one_of(*names: str, choices: Sequence[str], default: str | None = None, help: str) -> Decorator:  # noqa: A002 (as click)
    """Add an option with a fixed set of values; the error for any other value suggests the closest one."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value is not None and value not in choices:
            message = f"{called(param)} is {value!r}, expected one of {', '.join(choices)}"
            raise wrong(message, near=value, known=choices)
        return value

    return click.option(
        *names,
        metavar=f"[{'|'.join(choices)}]",
        callback=check,
        shell_complete=completing(lambda: choices),
        default=default,
        show_default=default is not None,
        help=help,
    )


def values(*, envvar: str | None = None) -> Decorator:
    """Add -f/--values, which becomes the parameter `files`."""
    return click.option(
        "-f",
        "--values",
        "files",
        multiple=True,
        type=FILE,
        metavar="FILE",
        envvar=envvar,
        show_envvar=envvar is not None,
        help="Values file. Repeat -f for each file; later files win, as with helm.",
    )


def _only_one(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> str | None:
    """Return an option's only value; click would silently use the last of several."""
    if len(value) > 1:
        message = f"{called(param)} is given {len(value)} times: {', '.join(value)}"
        raise wrong(message, fix="give one; grpo diff compares several accelerators")
    return value[0] if value else None


def set_values(function: Function) -> Function:
    """Add --set and related options, which become the parameter `arguments`: pairs of a flag and its argument."""
    helps = {
        set_arguments.SET: "Set values, with Helm's syntax: a.b=1,c[0]=x. Repeatable.",
        set_arguments.STRING: "Set values that stay text.",
        set_arguments.JSON: 'Set values that are JSON: a={"b": 1}.',
        set_arguments.FILE: "Set values from files: a=PATH.",
    }
    names = {flag: flag.removeprefix("--").replace("-", "_") for flag in helps}

    @functools.wraps(function)
    def command(**options: object) -> object:
        arguments = [(flag, text) for flag, name in names.items() for text in cast("Sequence[str]", options.pop(name))]
        return function(arguments=arguments, **options)

    for flag, text in reversed(helps.items()):
        command = click.option(flag, names[flag], multiple=True, metavar="KEY=VALUE", help=text)(command)
    return command


def _machine(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> str | None:
    name = _only_one(ctx, param, value)
    return None if name is None else machine_names.profile(name)


def _accelerator(*spellings: str) -> Callable[[Function], Function]:
    return click.option(
        *spellings,
        "accelerator",
        multiple=True,
        callback=_machine,
        metavar="NAME",
        shell_complete=completing(paths.accelerators),
        help="Put the profile of this machine before the files: its name, or the cloud's, such as p5en.",
    )


accelerator = _accelerator("--accelerator")
accelerator_or_gpu = _accelerator("--accelerator", "--gpu")
helm = click.option(
    "--helm",
    type=FILE,
    metavar="PATH",
    help="Helm executable. Default: helm on PATH, else the Helm inside helm-python-sdk.",
)


def namespace(text: str) -> Decorator:
    """Add -n/--namespace, with `text` as its help."""
    return click.option("-n", "--namespace", metavar="NAME", callback=kubernetes_name, help=text)


def kube_version(text: str = "") -> Decorator:
    """Add --kube-version, with `text` as its help; without `text`, check only the format, because the charts use it."""
    if text:
        return click.option("--kube-version", metavar="VERSION", help=text)
    text = "Kubernetes version that the charts see."
    return click.option("--kube-version", metavar="VERSION", callback=_version, help=text)


def _version(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _VERSION.fullmatch(value):
        raise wrong(f"{called(param)} is {value!r}, expected a version such as 1.35 or v1.35.2-gke.100")
    return value


def output_format(*forms: str) -> Decorator:
    """Add --format, which becomes the parameter `form`; the first format is the default."""
    return one_of("--format", "form", choices=forms, default=forms[0], help="Format of the output.")


# How the usage of a command names a run of the cluster.
RUN: Final = "RUN -n NAMESPACE"


def stack_files(files: Sequence[str], accelerator: str | None) -> list[str]:
    """Return a stack's values files; raise UsageError if there is none, or if a name contains a comma."""
    if not files and accelerator is None:
        context = click.get_current_context()
        path = context.command_path
        named = f", or {path} RUN --namespace NAME" if RUN in (context.command.options_metavar or "") else ""
        raise wrong(
            "no values file is given",
            fix=f"{path} -f values/accelerators/NAME.yaml -f RECIPE.yaml -f SITE.yaml{named}",
        )
    for name in files:
        if "," in name:
            raise wrong(f"{name!r} has a comma in it", fix="give each file its own -f")
    return [*files]


def stack(files: Sequence[str], accelerator: str | None, arguments: Sequence[Argument] = ()) -> Stack:
    """Read a stack's values; raise as `stack_files` and Stack.load do."""
    return Stack.load(stack_files(files, accelerator), arguments, accelerator=accelerator)


def with_profile(files: Sequence[str], accelerator: str | None) -> list[str]:
    """Return the files, preceded by an accelerator's profile; raise UsageError if the accelerator is unknown."""
    return [*([paths.accelerator(accelerator)] if accelerator else []), *files]


def _samples(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> list[tuple[str, str]]:
    """Return the role and the name of each data file; reject other words."""
    found = [(role, file) for role, _, file in (each.partition("=") for each in given)]
    for role, file in found:
        if role not in ROLES or not file:
            shown = f"{role}={file}" if file else role
            raise wrong(
                f"--data is {shown!r}, expected train=FILE or validation=FILE", fix=f"--data train={file or role}"
            )
    return [*dict.fromkeys(found)]


def _counted(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> list[tuple[str, str]]:
    """Return the files whose rows are counted; refuse other roles."""
    found = _samples(ctx, param, given)
    for role, file in found:
        if role != ROLES[0]:
            raise wrong(f"--data is {role}={file}, and only the rows of the training are counted")
    return found


def data(words: str) -> Decorator:
    """Return the option for files of the run's data, each with its role."""
    return click.option("--data", "data", multiple=True, metavar="train=FILE", callback=_samples, help=words)


def counted_data(words: str) -> Decorator:
    """Return the option for the files that the run trains on, whose rows are counted."""
    return click.option("--data", "data", multiple=True, metavar="train=FILE", callback=_counted, help=words)
